// The fake supervisor's operations on its workers: changes, losses, the end.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "fake_run.h"

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::test {
namespace {

using protocol::GenerationPlan;

bool contains(const std::vector<WorkerId>& list, WorkerId worker) {
  return std::find(list.begin(), list.end(), worker) != list.end();
}

std::vector<WorkerId> workers_of(const GenerationPlan& plan) {
  std::vector<WorkerId> workers;
  for (const auto& member : plan.members) workers.push_back(member.worker);
  return workers;
}

}  // namespace

GenerationPlan FakeRun::new_plan() {
  GenerationPlan plan;
  plan.generation = ++last_number_;
  plan.previous = generation_;
  plan.reason = "the test says so";
  for (std::size_t i = 0; i < 8; ++i) plan.token[i] = static_cast<std::uint8_t>(plan.generation >> (8 * i));
  plan.build_deadline_ms = 10'000;
  plan.synchronization = synchronization_;
  plan.averaging_weight = 0.1;
  return plan;
}

GenerationPlan FakeRun::plan(const std::vector<WorkerId>& members, const std::vector<std::uint32_t>& shares) {
  GenerationPlan plan = new_plan();
  plan.kind = generation_ == 0 ? protocol::ChangeKind::kStart : protocol::ChangeKind::kGrow;
  bool anyone_joins = false;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const bool joiner = !contains(members_, members[rank]);
    plan.members.push_back({.worker = members[rank],
                            .rank = rank,
                            .local_rank = rank,
                            .host = "here",
                            .endpoint = workers_.at(members[rank]).ready.value().endpoint,
                            .share = shares.empty() ? 8 : shares[rank],
                            .joiner = joiner});
    anyone_joins = anyone_joins || joiner;
    if (!joiner) plan.donors.push_back(members[rank]);
  }
  if (!anyone_joins) plan.donors.clear();
  return plan;
}

std::vector<WorkerId> FakeRun::addressees(const GenerationPlan& plan) const {
  std::vector<WorkerId> workers = workers_of(plan);
  for (const WorkerId member : members_) {
    if (!contains(workers, member)) workers.push_back(member);
  }
  return workers;
}

void FakeRun::prepare_for(const GenerationPlan& plan, const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) send(worker, protocol::Prepare{plan});
}

void FakeRun::wait_prepared(const GenerationPlan& plan) {
  for (const auto& member : plan.members) {
    wait_until([&] { return workers_.at(member.worker).prepared.contains(plan.generation); },
               to_string(member.worker) + " to prepare generation " + std::to_string(plan.generation));
  }
}

void FakeRun::commit(const GenerationPlan& plan) {
  commit_for(plan, addressees(plan));
}

void FakeRun::commit_for(const GenerationPlan& plan, const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) send(worker, protocol::Commit{plan.generation});
  committed_[plan.generation] = plan;
  if (plan.fence != 0) fences_.push_back({plan.generation, plan.resume_step + 1});
}

void FakeRun::wait_swapped(const GenerationPlan& plan) {
  for (const WorkerId worker : addressees(plan)) {
    const auto& record = workers_.at(worker);
    const bool member = contains(workers_of(plan), worker);
    // A worker that dies in its first step may not get to report that it is in the generation.
    const auto is_in = [&] { return record.active.contains(plan.generation) || record.exit_code.has_value(); };
    wait_until([&] { return member ? is_in() : record.left.has_value(); },
               to_string(worker) + " to go over to generation " + std::to_string(plan.generation));
  }
  generation_ = plan.generation;
  members_ = workers_of(plan);
}

void FakeRun::cancel(const GenerationPlan& plan) {
  for (const WorkerId worker : addressees(plan)) send(worker, protocol::Cancel{plan.generation});
}

void FakeRun::change_to(const std::vector<WorkerId>& members, const std::vector<std::uint32_t>& shares) {
  const auto next = plan(members, shares);
  prepare(next);
  wait_prepared(next);
  commit(next);
  wait_swapped(next);
}

const protocol::WorkerHalted& FakeRun::answer(WorkerId worker, Generation fence) const {
  const auto& halts = workers_.at(worker).halts;
  const auto found = std::find_if(halts.begin(), halts.end(), [&](const auto& halt) { return halt.fence == fence; });
  REQUIRE(found != halts.end());
  return *found;
}

void FakeRun::send_abort(Generation fence, const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) send(worker, protocol::Abort{fence, "the test lost a member"});
}

// A worker that ends instead of answering is lost as well; the caller finds it missing among the live ones.
void FakeRun::wait_halted(Generation fence, const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) {
    const auto& record = workers_.at(worker);
    wait_until(
        [&] {
          const auto answered = [&](const protocol::WorkerHalted& halt) { return halt.fence == fence; };
          return record.exit_code || std::any_of(record.halts.begin(), record.halts.end(), answered);
        },
        to_string(worker) + " to halt");
  }
}

Generation FakeRun::abort() {
  const Generation fence = new_fence();
  send_abort(fence, living());
  wait_halted(fence, living());
  return fence;
}

GenerationPlan FakeRun::recovery_plan(Generation fence, const std::vector<WorkerId>& spares) {
  GenerationPlan plan = new_plan();
  plan.kind = protocol::ChangeKind::kRecover;
  plan.fence = fence;
  bool anyone = false;
  for (const WorkerId worker : living()) {
    const auto& halt = answer(worker, fence);
    if (halt.has_state) plan.resume_step = std::max(plan.resume_step, halt.committed_step);
    anyone = anyone || halt.has_state;
  }
  if (!anyone) return plan;
  const auto add = [&](WorkerId worker, bool joiner) {
    const auto rank = static_cast<std::uint32_t>(plan.members.size());
    plan.members.push_back({.worker = worker,
                            .rank = rank,
                            .local_rank = rank,
                            .host = "here",
                            .endpoint = workers_.at(worker).ready.value().endpoint,
                            .share = 8,
                            .joiner = joiner});
    if (!joiner) plan.donors.push_back(worker);
  };
  const auto stands_there = [&](WorkerId worker) {
    const auto& halt = answer(worker, fence);
    return halt.has_state && halt.committed_step == plan.resume_step;
  };
  const auto all = living();
  const bool gradients_are_left = std::any_of(all.begin(), all.end(), [&](WorkerId worker) {
    return stands_there(worker) && answer(worker, fence).has_gradients;
  });
  const auto holds = [&](WorkerId worker) {
    return stands_there(worker) && (answer(worker, fence).has_gradients || !gradients_are_left);
  };
  for (const WorkerId worker : living()) {
    if (holds(worker)) add(worker, false);
  }
  for (const WorkerId worker : living()) {
    if (!holds(worker) && answer(worker, fence).in_loop) add(worker, true);
  }
  for (const WorkerId worker : spares) add(worker, true);
  return plan;
}

void FakeRun::recover(const std::vector<WorkerId>& spares) {
  const auto next = recovery_plan(abort(), spares);
  if (next.members.empty()) {
    members_.clear();
    generation_ = 0;
    return;
  }
  recover_with(next);
}

std::vector<WorkerId> FakeRun::lose_last_of_three(Moment::Where where, bool with_spare) {
  const std::vector<WorkerId> workers{spawn_ready(), spawn_ready(), spawn_ready(dying(options_, {where, 6}))};
  change_to(workers);
  wait_exit(workers[2]);
  recover(with_spare ? std::vector<WorkerId>{spawn_ready()} : std::vector<WorkerId>{});
  return workers;
}

void FakeRun::recover_with(const GenerationPlan& next) {
  members_ = workers_of(next);
  prepare_for(next, members_);
  wait_prepared(next);
  commit(next);
  generation_ = next.generation;
}

void FakeRun::stop_and_check() {
  const auto ending = members_;
  stop();
  for (const WorkerId worker : ending) {
    wait_exit(worker);
    CHECK(workers_.at(worker).exit_code == (workers_.at(worker).is_of_pool ? kExitOfPool : kExitStopped));
  }
  check_audit();
}

}  // namespace elastictrain::test
