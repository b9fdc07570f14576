// Purpose: a check for simulated runs: the records that a state machine has written, folded, must give the state that
// it has, so that a supervisor lost at this moment is succeeded by one that knows the same. Two folds are compared: of
// all records, and of the one record of the whole state (Membership::state_record).
//
// Ownership: one for each state machine; a later one that takes the run over continues it.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "supervisor/core/membership.h"
#include "supervisor/core/pure/journal_fold.h"

namespace elastictrain::testing {

// What matters to the next supervisor whether the run is settled or not.
inline std::string text_of_state(const core::Resumed& run) {
  std::string text = "generation " + std::to_string(run.generation) + ", issued " + std::to_string(run.issued) +
                     ", target " + std::to_string(run.target) + " (" + run.target_reason + "), ids " +
                     std::to_string(run.last_agent) + " " + std::to_string(run.last_worker) +
                     (run.unsettled ? ", unsettled" : "") +
                     (run.hold ? std::string(" held ") + (run.hold->duration.count() > 0 ? "for a time" : "") : "") +
                     " batch " + std::to_string(run.plan_update.program_batch.value_or(0)) + " of at most " +
                     std::to_string(run.plan_update.program_max_global.value_or(0)) + " lease " +
                     std::to_string(run.lease.version) + ":" + std::to_string(run.lease.slots) + " (" +
                     run.lease.reason + ")" + (run.lease.hold ? " holds" : "") + (run.lease.moves ? " moves" : "");
  for (const auto& worker : run.workers) {
    text += " " + to_string(worker.worker) + "@" + to_string(worker.agent) + ":" + std::to_string(worker.slot);
  }
  text += "; finished";
  for (WorkerId id : run.finished) text += " " + to_string(id);
  text += "; lineage";
  for (const auto& fence : run.lineage) {
    text += " " + std::to_string(fence.generation) + ":" + std::to_string(fence.first_step);
  }
  return text;
}

inline std::string numbers_of(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::uint32_t number : numbers) text += (text.empty() ? " only " : ",") + std::to_string(number);
  return text;
}

inline std::set<std::string> agents_of(const core::Resumed& run) {
  std::set<std::string> agents;
  for (const auto& agent : run.agents) {
    agents.insert(to_string(agent.agent) + "@" + agent.host + ":" + std::to_string(agent.slots) +
                  (agent.drain ? " drains" : "") + (agent.drained ? " and is gone" : "") +
                  (agent.noticed ? " by notice" : "") + numbers_of(agent.only));
  }
  return agents;
}

inline std::set<WorkerId> living_workers(const core::Resumed& run) {
  std::set<WorkerId> living;
  for (const auto& worker : run.workers) living.insert(worker.worker);
  return living;
}

// By rank, with their shares. A member that is gone is in the list only until the recovery that its loss begins.
inline std::string text_of_members(const core::Resumed& run) {
  const std::set<WorkerId> living = living_workers(run);
  std::string text;
  for (std::size_t rank = 0; rank < run.members.size(); ++rank) {
    if (!living.contains(run.members[rank])) continue;
    text += " " + to_string(run.members[rank]) + "=" + std::to_string(run.shares.at(rank));
  }
  return text;
}

inline std::string text_of(const core::Resumed& run) {
  std::string text = text_of_state(run) + "; members" + text_of_members(run) + "; agents";
  for (const std::string& agent : agents_of(run)) text += " " + agent;
  return text;
}

// The workers that the next supervisor asks for their position.
inline std::set<WorkerId> asked_workers(const core::Resumed& run) {
  std::set<WorkerId> asked(run.members.begin(), run.members.end());
  asked.insert(run.unsettled_members.begin(), run.unsettled_members.end());
  const std::set<WorkerId> living = living_workers(run);
  std::erase_if(asked, [&](WorkerId id) { return !living.contains(id); });
  return asked;
}

// The records know an agent until it has ended, also one that this supervisor has told to stop.
inline bool agents_agree(const core::Resumed& folded, const core::Resumed& live) {
  const auto known = agents_of(folded);
  const auto needed = agents_of(live);
  return std::includes(known.begin(), known.end(), needed.begin(), needed.end());
}

// In the middle of a change the next supervisor asks everybody, in a recovery: also a worker that this one is about to
// end, of which the journal has no record yet.
inline bool agree(const core::Resumed& folded, const core::Resumed& live) {
  if (text_of_state(folded) != text_of_state(live) || !agents_agree(folded, live)) return false;
  if (!live.unsettled) return text_of_members(folded) == text_of_members(live);
  const std::set<WorkerId> asked = asked_workers(folded);
  const std::set<WorkerId> needed = asked_workers(live);
  return std::includes(asked.begin(), asked.end(), needed.begin(), needed.end());
}

// Once a run was taken over, the supervisor counts as unsettled, and as no generation, what it has not found, which the
// next one finds out for itself.
// Members without samples are joiners of a change that was under way; where all others have finished they never begin,
// and it does not matter who finds that out.
inline core::Resumed as_taken_over(core::Resumed run) {
  run.generation = 0;
  run.unsettled = true;
  const std::set<WorkerId> living = living_workers(run);
  const std::set<WorkerId> finished(run.finished.begin(), run.finished.end());
  std::vector<WorkerId> joiners;
  for (std::size_t rank = 0; rank < run.members.size(); ++rank) {
    const WorkerId id = run.members[rank];
    if (finished.contains(id) || !living.contains(id)) continue;
    if (run.shares.at(rank) != 0) return run;
    joiners.push_back(id);
  }
  if (finished.empty()) return run;
  for (std::size_t rank = run.members.size(); rank-- > 0;) {
    if (std::find(joiners.begin(), joiners.end(), run.members[rank]) == joiners.end()) continue;
    run.members.erase(run.members.begin() + static_cast<std::ptrdiff_t>(rank));
    run.shares.erase(run.shares.begin() + static_cast<std::ptrdiff_t>(rank));
  }
  return run;
}

// Without a worker that holds the state, the next supervisor of a run that ends starts again, whatever generation there
// was. Where it is unsettled, it asks everybody, also a worker that this one is about to end.
inline core::Resumed as_started_again(core::Resumed run, bool asks_everybody) {
  if (asks_everybody) {
    run.members.clear();
    run.shares.clear();
  }
  run.generation = 0;
  run.unsettled = false;
  run.target_reason.clear();
  return run;
}

class JournalCheck {
 public:
  explicit JournalCheck(const core::RunSettings& settings) {
    opened_.start_workers = settings.start_workers;
    opened_.max_workers = settings.max_workers;
    if (settings.leased) opened_.leased = true;
    all_.take(opened_);
  }

  // Every record that the run wrote, in order.
  void take(const core::Record& record) {
    all_.take(record);
    taken_over_ = taken_over_ || record.is<core::record::RunResumed>();
  }

  // After a step. Returns the difference, or nothing.
  std::optional<std::string> difference(const core::Membership& machine) const {
    core::JournalFold whole;
    whole.take(opened_);
    whole.take(machine.state_record().record);
    core::Resumed folded = all_.result();
    core::Resumed live = whole.result();
    if (machine.view().phase == core::RunPhase::kStopping && asked_workers(live).empty()) {
      const bool asks_everybody = live.unsettled;
      folded = as_started_again(std::move(folded), asks_everybody);
      live = as_started_again(std::move(live), asks_everybody);
    }
    if (taken_over_ ? agree(as_taken_over(folded), as_taken_over(live)) : agree(folded, live)) return std::nullopt;
    return "the journal gives: " + text_of(folded) + "\n  the state is:      " + text_of(live);
  }

 private:
  core::record::RunOpened opened_;
  core::JournalFold all_;
  bool taken_over_ = false;
};

}  // namespace elastictrain::testing
