#include "tests/simulation/oracle.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/simulation/journal_records.h"

namespace elastictrain::simulation {
namespace {

std::string name_of(Generation generation) {
  return "generation " + std::to_string(generation);
}

}  // namespace

void Oracle::violated(const std::string& check, const std::string& text) {
  if (!violation_) violation_ = Violation{check, text};
}

// ---------------------------------------------------------------------------------------------------------------
// The supervisor

void Oracle::journaled(const core::Journal& record) {
  RecordFacts facts = facts_of(record);
  if (!facts.totals.empty()) audit_ = std::move(facts.totals);
  if (!facts.broken_invariant.empty()) violated("core_invariants", facts.broken_invariant);
  for (const Generation number : facts.numbers) journaled_.insert({facts.event, number});
  if (facts.event == "active") {  // from here on it is part of each plan's lineage
    for (const Generation number : facts.numbers) tentative_.erase(number);
  }
}

void Oracle::asked(std::uint64_t request) {
  open_requests_.insert(request);
}

void Oracle::replied(std::uint64_t request) {
  if (open_requests_.erase(request) == 0) {
    violated("one_reply", "request " + std::to_string(request) + " got a second reply");
  }
}

void Oracle::check_all_answered() {
  if (open_requests_.empty()) return;
  violated("one_reply", "request " + std::to_string(*open_requests_.begin()) + " never got a reply");
}

void Oracle::sends(const protocol::WorkerDown& message, const std::set<WorkerId>& known) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(&message)) check_plan(prepare->plan, known);
  if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
    Plan& plan = plans_[commit->generation];
    if (plan.cancelled) violated("commit_or_cancel", name_of(commit->generation) + " is committed after its cancel");
    if (!plan.committed) check_all_prepared(plan);
    check_journaled("commit", commit->generation);
    plan.committed = true;
  }
  if (const auto* cancel = std::get_if<protocol::Cancel>(&message)) {
    Plan& plan = plans_[cancel->generation];
    if (plan.committed) violated("commit_or_cancel", name_of(cancel->generation) + " is cancelled after its commit");
    plan.cancelled = true;
  }
  if (const auto* abort = std::get_if<protocol::Abort>(&message)) {
    if (fences_.contains(abort->fence)) return;
    check_number_is_new(abort->fence, "a fence");
    check_journaled("abort", abort->fence);
    fences_.insert(abort->fence);
  }
}

void Oracle::check_plan(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known) {
  const auto found = plans_.find(plan.generation);
  if (found != plans_.end()) {
    if (found->second.plan.token == plan.token) return;  // sent again after a broken connection
    return violated("numbers_used_once", name_of(plan.generation) + " is the number of two plans");
  }
  check_number_is_new(plan.generation, "a plan");
  plans_[plan.generation].plan = plan;
  check_journaled("prepare", plan.generation);
  check_ranks_are_dense(plan);
  if (plan.fence != 0) {
    check_recovery_members(plan);
    check_state_is_latest(plan, known);
  } else if (plan.previous == 0) {
    check_restart(plan, known);
  } else if (!fences_.empty() && plan.previous < *fences_.rbegin()) {
    violated("fenced_is_dead", name_of(plan.generation) + " follows " + name_of(plan.previous) + ", which is fenced");
  }
}

void Oracle::check_number_is_new(Generation number, const std::string& what) {
  if (number <= highest_number_) {
    violated("numbers_used_once", what + " gets number " + std::to_string(number) + " after " +
                                      std::to_string(highest_number_) + " was used");
  }
  highest_number_ = std::max(highest_number_, number);
}

void Oracle::check_journaled(const std::string& event, Generation generation) {
  if (journaled_.contains({event, generation})) return;
  violated("journal_first", event + " " + std::to_string(generation) + " is carried out and not in the journal");
}

void Oracle::check_ranks_are_dense(const protocol::GenerationPlan& plan) {
  std::set<WorkerId> seen;
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    const protocol::Member& member = plan.members[rank];
    if (member.rank != rank) {
      violated("ranks_are_dense", name_of(plan.generation) + " gives rank " + std::to_string(member.rank) + " to " +
                                      to_string(member.worker) + " in place " + std::to_string(rank));
    }
    if (!seen.insert(member.worker).second) {
      violated("ranks_are_dense", name_of(plan.generation) + " lists " + to_string(member.worker) + " twice");
    }
  }
}

void Oracle::check_recovery_members(const protocol::GenerationPlan& plan) {
  const std::string name = name_of(plan.generation);
  std::set<WorkerId> holders;
  for (const protocol::Member& member : plan.members) {
    const Worker& worker = workers_[member.worker];
    const bool answered = worker.received.fence == plan.fence;
    const bool in_a_generation = worker.assignment != 0 && (worker.received.fence == 0 || worker.received.in_loop);
    if (!answered && (in_a_generation || !member.joiner)) {
      violated("only_who_answered", name + " lists " + to_string(member.worker) + ", which has not answered fence " +
                                        std::to_string(plan.fence));
    }
    if (member.joiner) continue;
    holders.insert(member.worker);
    if (worker.received.has_state && worker.received.committed_step == plan.resume_step) continue;
    violated("holders_hold", name + " resumes at step " + std::to_string(plan.resume_step) + " with " +
                                 to_string(member.worker) + " at step " +
                                 std::to_string(worker.received.committed_step));
  }
  for (const WorkerId donor : plan.donors) {
    if (plan.members.empty() || holders.contains(donor)) continue;
    violated("holders_hold", name + " has donor " + to_string(donor) + ", which does not hold the state");
  }
}

void Oracle::check_state_is_latest(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known) {
  for (const WorkerId id : known) {
    const Worker& worker = workers_[id];
    if (worker.received.fence != plan.fence || !worker.received.has_state) continue;
    if (worker.received.committed_step <= plan.resume_step) continue;
    violated("state_is_latest", name_of(plan.generation) + " resumes at step " + std::to_string(plan.resume_step) +
                                    " although " + to_string(id) + " has committed step " +
                                    std::to_string(worker.received.committed_step));
  }
}

void Oracle::check_restart(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known) {
  if (fences_.empty()) return;
  for (const WorkerId id : known) {
    const Worker& worker = workers_[id];
    if (worker.received.fence != *fences_.rbegin() || !worker.received.has_state || worker.received.committed_step == 0)
      continue;
    violated("state_is_latest", name_of(plan.generation) + " starts anew although " + to_string(id) +
                                    " holds the state of step " + std::to_string(worker.received.committed_step));
  }
}

void Oracle::check_all_prepared(const Plan& plan) {
  for (const protocol::Member& member : plan.plan.members) {
    if (plan.prepared.contains(member.worker)) continue;
    violated("commit_after_prepared",
             name_of(plan.plan.generation) + " is committed before " + to_string(member.worker) + " is prepared");
  }
}

void Oracle::addresses(WorkerId worker) {
  if (!workers_[worker].greeted)
    violated("hello_first", to_string(worker) + " gets a message before its hello arrived");
}

void Oracle::delivered(WorkerId worker, const protocol::WorkerUp& message) {
  Worker& facts = workers_[worker];
  if (std::holds_alternative<protocol::WorkerHello>(message)) facts.greeted = true;
  const auto* answer = std::get_if<protocol::WorkerHalted>(&message);
  if (answer != nullptr && answer->fence >= facts.received.fence) facts.received = *answer;
}

// ---------------------------------------------------------------------------------------------------------------
// Workers

void Oracle::started(WorkerId worker) {
  if (!workers_.try_emplace(worker).second) violated("ids_used_once", to_string(worker) + " is started twice");
}

void Oracle::gone(WorkerId worker) {
  workers_[worker].alive = false;
}

void Oracle::dismissed(WorkerId worker, bool trains) {
  const Worker& facts = workers_[worker];
  if (!trains || facts.assignment <= facts.given_up) return;
  violated("no_member_is_dismissed",
           to_string(worker) + " is dismissed while it trains in " + name_of(facts.assignment));
}

void Oracle::prepared(WorkerId worker, Generation generation) {
  plans_[generation].prepared.insert(worker);
}

void Oracle::assigned(WorkerId worker, const protocol::GenerationPlan& plan) {
  Worker& facts = workers_[worker];
  const Plan& known = plans_[plan.generation];
  if (!known.committed)
    violated("assignment_after_commit", to_string(worker) + " takes an assignment that is not committed");
  if (plan.generation <= facts.assignment) {
    violated("assigned_once",
             to_string(worker) + " goes from " + name_of(facts.assignment) + " to " + name_of(plan.generation));
  }
  if (plan.generation <= facts.given_up) {
    violated("behind_no_fence", to_string(worker) + " takes an assignment in " + name_of(plan.generation) +
                                    " after it answered fence " + std::to_string(facts.given_up));
  }
  facts.assignment = plan.generation;
}

void Oracle::begins(Generation generation, Step first_step) {
  const auto [found, fresh] = first_steps_.try_emplace(generation, first_step);
  if (fresh && found != first_steps_.begin()) {
    const auto [before, same_step] = *std::prev(found);  // in which nobody may have committed
    if (same_step == first_step && tentative_.contains(before)) tentative_.insert(generation);
  }
  if (fresh || found->second == first_step) return;
  violated("one_first_step", name_of(generation) + " begins with step " + std::to_string(found->second) + " and " +
                                 std::to_string(first_step));
}

void Oracle::begins_afresh(Generation generation, Step first_step) {
  if (!first_steps_.contains(generation)) tentative_.insert(generation);
  begins(generation, first_step);
}

void Oracle::writes_fence(Generation generation) {
  tentative_.erase(generation);
}

void Oracle::stops(Generation generation, Step last_step) {
  begins(generation, last_step + 1);
  tentative_.erase(generation);
  if (history_.size() > last_step) cut_history(last_step);
}

void Oracle::answers(WorkerId worker, const protocol::WorkerHalted& message, bool settled, Step really_committed) {
  Worker& facts = workers_[worker];
  if (!settled) {
    violated("answer_is_settled", to_string(worker) + " says that step " + std::to_string(message.committed_step) +
                                      " is its last while the next one may still be committed");
  }
  if (message.has_state && message.committed_step != really_committed) {
    violated("answer_is_true", to_string(worker) + " says step " + std::to_string(message.committed_step) +
                                   " and has committed " + std::to_string(really_committed));
  }
  facts.given_up = std::max({facts.given_up, message.fence, message.fence == 0 ? message.generation : 0});
}

void Oracle::passes(WorkerId worker, Step step, const Counted& part) {
  Worker& facts = workers_[worker];
  if (part.positions.empty()) return;
  if (step <= facts.passed) {
    violated("no_pass_repeated", to_string(worker) + " computes step " + std::to_string(step) + " again");
  }
  facts.passed = std::max(facts.passed, step);
}

bool Oracle::is_void(Generation generation, Step step) const {
  for (auto later = first_steps_.upper_bound(generation); later != first_steps_.end(); ++later) {
    if (later->second <= step && !tentative_.contains(later->first)) return true;
  }
  return false;
}

bool Oracle::is_fenced_by_plan(Generation generation, Step step) const {
  return std::any_of(plans_.upper_bound(generation), plans_.end(), [&](const auto& later) {
    const auto& [plan, prepared, committed, cancelled] = later.second;
    return committed && plan.fence != 0 && plan.resume_step < step;
  });
}

void Oracle::commits(WorkerId worker, const CommittedStep& step) {
  tentative_.erase(step.generation);
  check_behind_no_fence(worker, step);
  check_bit_identity(worker, step);
  if (violation_ || is_void(step.generation, step.step)) return;
  const std::string name = "step " + std::to_string(step.step) + " of " + name_of(step.generation);
  if (step.step > history_.size() + 1) return violated("no_step_is_skipped", name + " follows no other");
  if (step.step == history_.size() + 1) return append(step);
  const CommittedStep& other = history_[step.step - 1];
  if (other.generation == step.generation) return;
  if (other.generation > step.generation || !is_void(other.generation, step.step)) {
    return violated("one_surviving_history", name + " stands beside that of " + name_of(other.generation));
  }
  cut_history(step.step - 1);
  append(step);
}

void Oracle::check_behind_no_fence(WorkerId worker, const CommittedStep& step) {
  const Worker& facts = workers_[worker];
  if (step.generation > facts.given_up) return;
  violated("behind_no_fence", to_string(worker) + " commits step " + std::to_string(step.step) + " in " +
                                  name_of(step.generation) + " after it has given up everything to " +
                                  std::to_string(facts.given_up));
}

void Oracle::check_bit_identity(WorkerId worker, const CommittedStep& step) {
  const auto [found, fresh] = chains_.try_emplace({step.generation, step.step}, step.after);
  if (fresh || found->second == step.after) return;
  violated("bit_identity", to_string(worker) + " has other parameters than the others after step " +
                               std::to_string(step.step) + " of " + name_of(step.generation));
}

void Oracle::cut_history(Step last) {
  history_.resize(last);
  epochs_.clear();
  for (const CommittedStep& step : history_) {
    for (const state::Interval& piece : step.counted.positions)
      epochs_[step.counted.epoch].add(piece.first, piece.count);
  }
}

void Oracle::append(const CommittedStep& step) {
  const Chain before = history_.empty() ? 0 : history_.back().after;
  if (before != step.before) {
    return violated("state_is_latest", "step " + std::to_string(step.step) + " of " + name_of(step.generation) +
                                           " goes on from other parameters than those of step " +
                                           std::to_string(step.step - 1));
  }
  check_exactly_once(step);
  history_.push_back(step);
}

void Oracle::check_exactly_once(const CommittedStep& step) {
  const std::string name = "step " + std::to_string(step.step) + " of " + name_of(step.generation);
  const Counted& counted = step.counted;
  if (counted.epoch > 0 && epochs_[counted.epoch - 1].size() != samples_) {
    violated("exactly_once", name + " begins epoch " + std::to_string(counted.epoch) + " although " +
                                 std::to_string(samples_ - epochs_[counted.epoch - 1].size()) +
                                 " samples of the one before have not counted");
  }
  for (const state::Interval& piece : counted.positions) {
    const std::uint64_t repeated = epochs_[counted.epoch].add(piece.first, piece.count);
    if (repeated != 0 || piece.first + piece.count > samples_) {
      violated("exactly_once", name + " counts positions " + text_of({piece}) + " of epoch " +
                                   std::to_string(counted.epoch) + ", " + std::to_string(repeated) + " of them again");
    }
  }
}

void Oracle::receives_state(WorkerId worker, const protocol::GenerationPlan& plan, Step step, Chain chain) {
  if (plan.fence != 0 && step != plan.resume_step) {
    violated("state_is_latest", to_string(worker) + " gets the state of step " + std::to_string(step) + " instead of " +
                                    std::to_string(plan.resume_step));
  }
  if (is_void(plan.generation, step + 1)) return;
  const Chain expected = step == 0 ? 0 : step <= history_.size() ? history_[step - 1].after : ~Chain{0};
  if (chain != expected) {
    violated("state_is_latest", to_string(worker) + " gets parameters of step " + std::to_string(step) +
                                    " that are not those of the surviving history");
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Checkpoints

void Oracle::writes_checkpoint(WorkerId worker, const CheckpointFacts& written) {
  if (is_void(written.generation, written.step) || written.step == 0) return;
  if (written.step <= history_.size() && history_[written.step - 1].after == written.chain) return;
  violated("checkpoint_is_true", to_string(worker) + " writes a checkpoint of step " + std::to_string(written.step) +
                                     " that is not that of the surviving history");
}

void Oracle::reads_checkpoint(WorkerId worker, const std::optional<CheckpointFacts>& read,
                              const std::vector<CheckpointFacts>& complete) {
  const auto counts = [&](const CheckpointFacts& c) {
    if (is_void(c.generation, c.step) || c.step > history_.size()) return false;
    return c.chain == (c.step == 0 ? 0 : history_[c.step - 1].after);
  };
  Step newest = 0;
  for (const CheckpointFacts& each : complete) {
    if (counts(each) && !is_fenced_by_plan(each.generation, each.step)) newest = std::max(newest, each.step);
  }
  if (read && !counts(*read)) {
    violated("no_fenced_checkpoint", to_string(worker) + " reads the checkpoint of step " + std::to_string(read->step) +
                                         " of " + name_of(read->generation) + ", which does not count");
  }
  if ((read ? read->step : 0) != newest) {
    violated("newest_checkpoint", to_string(worker) + " reads step " + std::to_string(read ? read->step : 0) +
                                      " although the checkpoint of step " + std::to_string(newest) + " is there");
  }
}

// ---------------------------------------------------------------------------------------------------------------
// The end

void Oracle::check_complete(std::uint64_t epochs, Step max_steps) {
  if (max_steps != 0 && history_.size() == max_steps) return;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    if (epochs_[epoch].size() == samples_) continue;
    return violated("exactly_once", std::to_string(samples_ - epochs_[epoch].size()) + " samples of epoch " +
                                        std::to_string(epoch) + " counted in no step");
  }
}

void Oracle::check_ledger(const char* name, std::uint64_t value) {
  const std::uint64_t counted = audit_[name];
  if (counted == value) return;
  violated("ledger_agrees",
           "the ledger counts " + std::to_string(counted) + " " + name + " instead of " + std::to_string(value));
}

// The ledger's result at the end, whatever was not reported to it.
void Oracle::check_ledger_repeats_nothing() {
  check_ledger("repeated", 0);
  check_ledger("unequal_hashes", 0);
}

// Checked if no account can have been lost with a machine.
void Oracle::check_ledger_agrees() {
  std::uint64_t counted = 0;
  for (const auto& [epoch, positions] : epochs_) counted += positions.size();
  check_ledger("missing", 0);
  check_ledger("unaccounted", 0);
  check_ledger("samples", counted);
}

}  // namespace elastictrain::simulation
