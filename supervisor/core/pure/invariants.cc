#include "supervisor/core/pure/invariants.h"

#include <algorithm>
#include <array>
#include <set>
#include <variant>

namespace elastictrain::core {
namespace {

constexpr Handling H = Handling::kHandle;
constexpr Handling R = Handling::kRefuse;
constexpr Handling I = Handling::kIgnore;

struct Row {
  const char* event;
  std::array<Handling, kPhases> phases;
};

// One row for each alternative of Event, in the same order.
// clang-format off
constexpr std::array<Row, std::variant_size_v<Event>> kRows{{
    //                       starting resuming training changing halted below_min recovering ending ended
    {"hosts_offered",        {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"agent_connected",      {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"agent_lost",           {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_spawn_failed",  {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_exited",        {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_message",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"agent_reported",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"resize",               {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"replace_worker",       {{R,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"replace_host",         {{R,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"drain_host",           {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"undrain_host",         {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"stop",                 {{H,       H,       H,       H,       H,     H,        H,         H,     R}}},
    {"stop_now",             {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"timer_fired",          {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"host_noticed",         {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"agent_answered",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"resumed",              {{H,       I,       I,       I,       I,     I,        I,         I,     I}}},
    {"update_plan",          {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"lease_given",          {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"warm_reported",        {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
}};

// Row: phase before the step; column: phase after it. A run that lost all its state starts again. What follows a loss
// begins with a halt, and no generation trains before it was built.
constexpr std::array<std::array<bool, kPhases>, kPhases> kMayFollow{{
    //              starting resuming training changing halted below_min recovering ending ended
    /*starting*/    {{true,    true,    true,    true,    true,  true,     true,      true,  true}},
    /*resuming*/    {{true,    true,    true,    true,    true,  true,     true,      true,  true}},
    /*training*/    {{true,    false,   true,    true,    true,  false,    false,     true,  true}},
    /*changing*/    {{true,    false,   true,    true,    true,  false,    false,     true,  true}},
    /*halted*/      {{true,    false,   false,   false,   true,  true,     true,      true,  true}},
    /*below_min*/   {{true,    false,   false,   false,   false, true,     true,      true,  true}},
    /*recovering*/  {{true,    false,   true,    true,    true,  true,     true,      true,  true}},
    /*ending*/      {{false,   false,   false,   false,   false, false,    false,     true,  true}},
    /*ended*/       {{false,   false,   false,   false,   false, false,    false,     false, true}},
}};
// clang-format on

constexpr std::array<const char*, kPhases> kPhaseNames{
    {"starting", "resuming", "training", "changing", "halted", "below_min", "recovering", "ending", "ended"}};
constexpr std::array<const char*, 5> kShownPhaseNames{{"starting", "running", "changing", "stopping", "ended"}};
// As `status` shows them.
constexpr std::array<const char*, 9> kAgentPhaseNames{
    {"launching", "up", "suspect", "reconnecting", "draining", "drained", "left", "cooling", "lost"}};

}  // namespace

const char* name_of(const Event& event) {
  return kRows[event.index()].event;
}

const char* name_of(Phase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

const char* name_of(RunPhase phase) {
  return kShownPhaseNames[static_cast<std::size_t>(phase)];
}

const char* name_of(AgentPhase phase) {
  return kAgentPhaseNames[static_cast<std::size_t>(phase)];
}

Handling handling(Phase phase, const Event& event) {
  return kRows[event.index()].phases[static_cast<std::size_t>(phase)];
}

bool may_follow(Phase from, Phase to) {
  return kMayFollow[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

std::uint64_t request_of(const Event& event) {
  return std::visit(
      [](const auto& e) -> std::uint64_t {
        if constexpr (requires { e.request; }) {
          return e.request;
        } else {
          return 0;
        }
      },
      event);
}

std::optional<std::string> Invariants::check(const Event& event, const Actions& actions, const RunFacts& facts) {
  if (!may_follow(facts.before, facts.after)) {
    return std::string("the run went from ") + name_of(facts.before) + " to " + name_of(facts.after);
  }
  if (const auto* report = std::get_if<WorkerMessage>(&event)) {
    const auto* halted = std::get_if<protocol::WorkerHalted>(&report->message);
    if (halted != nullptr && halted->fence == fence_) answers_.try_emplace(report->worker, *halted);
  }
  if (Broken broken = check_replies(event, actions)) return broken;
  if (Broken broken = check_order(actions)) return broken;
  for (const Action& action : actions) {
    if (const auto* send = std::get_if<SendToWorkers>(&action)) {
      if (Broken broken = check_message(*send, facts)) return broken;
    }
  }
  return facts.whole ? check_slots(facts) : std::nullopt;
}

void Invariants::resume(Generation committed, Generation issued, WorkerId last_worker) {
  committed_ = committed;
  issued_ = issued;
  last_worker_ = last_worker;
}

Invariants::Broken Invariants::check_replies(const Event& event, const Actions& actions) const {
  const std::uint64_t expected = request_of(event);
  std::size_t replies = 0;
  for (const Action& action : actions) {
    const auto* reply = std::get_if<Reply>(&action);
    if (reply == nullptr) continue;
    if (reply->request != expected) return "a reply to request " + std::to_string(reply->request) + " out of turn";
    ++replies;
  }
  if (replies == (expected != 0 ? 1U : 0U)) return std::nullopt;
  return std::to_string(replies) + " replies to request " + std::to_string(expected);
}

Invariants::Broken Invariants::check_order(const Actions& actions) {
  for (const Action& action : actions) {
    if (ended_ && !std::holds_alternative<Reply>(action)) return "an action after the end of the run";
    if (std::holds_alternative<EndRun>(action)) ended_ = true;
    const auto* spawn = std::get_if<SpawnWorker>(&action);
    if (spawn == nullptr) continue;
    if (spawn->worker <= last_worker_) return to_string(spawn->worker) + " was started twice";
    if (spawn->rank >= spawn->world_size) return to_string(spawn->worker) + " expects a rank beyond its world";
    last_worker_ = spawn->worker;
  }
  return std::nullopt;
}

Invariants::Broken Invariants::check_message(const SendToWorkers& send, const RunFacts& facts) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(&send.message)) return check_plan(prepare->plan, facts);
  if (const auto* abort = std::get_if<protocol::Abort>(&send.message)) return check_abort(*abort, send.workers);
  if (const auto* commit = std::get_if<protocol::Commit>(&send.message)) return check_commit(commit->generation);
  if (const auto* cancel = std::get_if<protocol::Cancel>(&send.message)) {
    if (cancel->generation != open_)
      return "generation " + std::to_string(cancel->generation) + " was cancelled, but is not open";
    open_ = 0;
  }
  return std::nullopt;
}

// Messages that an agent missed while its connection was broken are repeated to its workers.
Invariants::Broken Invariants::check_commit(Generation generation) {
  if (generation == committed_) return std::nullopt;
  if (generation != open_) return "a commit of generation " + std::to_string(generation) + ", which is not open";
  if (generation <= committed_) return "a generation was committed that is not newer than the last";
  if (generation <= fence_) return "generation " + std::to_string(generation) + " was committed behind a fence";
  committed_ = generation;
  open_ = 0;
  if (open_recovers_) fenced_ = false;
  return std::nullopt;
}

Invariants::Broken Invariants::check_abort(const protocol::Abort& abort, const std::vector<WorkerId>& addressees) {
  if (abort.fence == fence_) return std::nullopt;
  if (abort.fence <= issued_) return "fence " + std::to_string(abort.fence) + " is not newer than what it ends";
  if (open_ != 0) return "a fence while generation " + std::to_string(open_) + " is open";
  issued_ = fence_ = abort.fence;
  fenced_ = true;
  aborted_ = {addressees.begin(), addressees.end()};
  answers_.clear();
  return std::nullopt;
}

Invariants::Broken Invariants::check_plan(const protocol::GenerationPlan& plan, const RunFacts& facts) {
  if (plan.generation == open_) return std::nullopt;
  const std::string name = "generation " + std::to_string(plan.generation);
  if (plan.generation <= issued_) return name + " follows " + std::to_string(issued_);
  issued_ = plan.generation;
  if (open_ != 0) return name + " was prepared with open generation " + std::to_string(open_);
  open_ = plan.generation;
  open_recovers_ = plan.fence != 0 || plan.previous == 0;
  if (fenced_ && !open_recovers_) return name + " does not follow fence " + std::to_string(fence_);
  if (plan.previous != facts.generation) return name + " does not follow the generation that trains";
  if (plan.fence != 0) {
    if (Broken broken = check_recovery(plan, facts)) return broken;
  } else if (plan.previous != committed_ && plan.previous != 0) {
    return name + " was prepared before the swap to the last one was over";
  }
  return check_members(plan, facts);
}

bool Invariants::holds_state(WorkerId worker, Step step) const {
  const auto answer = answers_.find(worker);
  return answer != answers_.end() && answer->second.has_state && answer->second.committed_step == step;
}

// After a fence only workers that have reported their position continue, and all that hold the state hold that of one
// step.
Invariants::Broken Invariants::check_recovery(const protocol::GenerationPlan& plan, const RunFacts& facts) const {
  const std::string name = "generation " + std::to_string(plan.generation);
  if (plan.fence != fence_) return name + " follows a fence that is not the newest";
  for (WorkerId id : aborted_) {
    const Worker* worker = facts.roster.worker(id);
    if (worker != nullptr && worker->trains() && !answers_.contains(id)) {
      return name + " was prepared before " + to_string(id) + " had halted";
    }
  }
  for (const protocol::Member& member : plan.members) {
    if (!member.joiner && !holds_state(member.worker, plan.resume_step)) {
      return name + " resumes " + to_string(member.worker) + ", which does not stand at step " +
             std::to_string(plan.resume_step);
    }
    if (aborted_.contains(member.worker) && !answers_.contains(member.worker)) {
      return name + " lists " + to_string(member.worker) + ", which has not answered the fence";
    }
  }
  for (WorkerId donor : plan.donors) {
    if (!holds_state(donor, plan.resume_step)) return name + " has a donor without the state";
  }
  if (plan.members.empty() && plan.donors.empty()) return name + " stops the run without naming a holder of its state";
  return std::nullopt;
}

Invariants::Broken Invariants::check_members(const protocol::GenerationPlan& plan, const RunFacts& facts) const {
  const std::string name = "generation " + std::to_string(plan.generation);
  const std::set<WorkerId> before(facts.members.begin(), facts.members.end());
  std::set<WorkerId> seen;
  std::map<std::pair<AgentId, std::uint32_t>, std::size_t> slots;
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    const protocol::Member& member = plan.members[rank];
    const Worker* worker = facts.roster.worker(member.worker);
    if (member.rank != rank) return name + " has ranks that are not dense";
    if (!seen.insert(member.worker).second) return name + " lists " + to_string(member.worker) + " twice";
    if (worker == nullptr || worker->dying()) return name + " lists " + to_string(member.worker) + ", which is gone";
    if (!worker->ready()) return name + " lists " + to_string(member.worker) + ", which is not ready";
    // Only a rank 0 that sends its state to new workers only may share its slot with one of them; two workers that
    // share a slot since a recovery in the middle of a replacement are separated by the next change.
    const auto [before_it, fresh] = slots.emplace(std::pair{worker->agent, worker->slot}, rank);
    const bool shared_before =
        before.contains(member.worker) && before.contains(plan.members[before_it->second].worker);
    if (!fresh && before_it->second != 0 && !shared_before && plan.fence == 0) {
      return name + " puts two members into one slot";
    }
    const bool joins = plan.previous != 0 && !before.contains(member.worker);
    const bool behind = plan.fence != 0 && member.joiner;
    if (member.joiner != joins && !behind) return name + " confuses joiners and survivors";
  }
  for (WorkerId donor : plan.donors) {
    if (plan.members.empty()) break;
    if (!seen.contains(donor) || !before.contains(donor)) return name + " has a donor that does not survive";
  }
  return std::nullopt;
}

Invariants::Broken Invariants::check_slots(const RunFacts& facts) const {
  std::map<std::pair<AgentId, std::uint32_t>, std::uint32_t> workers;
  for (const auto& [id, worker] : facts.roster.workers()) {
    if (++workers[{worker.agent, worker.slot}] > 2) {
      return "slot " + std::to_string(worker.slot) + " of " + worker.host + " holds too many workers";
    }
  }
  return std::nullopt;
}

}  // namespace elastictrain::core
