// What this worker does when its generation is void: it waits for the next seat and repeats the open step, or discards
// that step and receives the state. Also the end of the data, which all workers pass together.
#include <algorithm>
#include <set>
#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {

using Kind = session::ControlPlane::SeatKind;

// Waits for the next seat. True: the open step (or the last barrier) can be tried again on it. False: the open step is
// given up; the run continues with rejoin() at the boundary, or outcome_ says that it is over.
bool Session::Impl::take_recovery_seat() {
  auto taken = plane_->wait_seat();
  // From this point on the state may change, and it is neither sent to nor received from members of the old seat.
  sender_.reset();
  receiver_.reset();
  if (!taken) {
    stop_as_orphan();
    return false;
  }
  switch (taken->kind) {
    case Kind::kContinue:
      sit_down_again(std::move(*taken));
      return true;
    case Kind::kRejoin: {
      const bool keeps_step = step_ && progress_.committed_step == taken->plan.resume_step;
      sit_down_again(std::move(*taken));
      return keeps_step && continue_step_without_state();
    }
    case Kind::kStop:
      tell_audits_of_the_lost(seat_.shares, taken->plan.donors);
      if (taken->writes_checkpoint) write_checkpoint();
      leave(taken->plan, Outcome::kStopped);
      return false;
    case Kind::kDismissed:
      outcome_ = Outcome::kLeft;
      return false;
    case Kind::kPlanned:
    case Kind::kLeave:
      break;
  }
  leave(taken->plan, Outcome::kLeft);
  return false;
}

void Session::Impl::sit_down_again(session::TakenSeat taken) {
  const auto& plan = taken.plan;
  if (taken.kind == Kind::kContinue && progress_.committed_step != plan.resume_step) {
    fail("internal error: generation " + std::to_string(plan.generation) + " continues from step " +
         std::to_string(plan.resume_step) + " with a worker at step " + std::to_string(progress_.committed_step));
  }
  const auto before = seat_.shares;
  const bool may_keep_replica = has_own_replica();
  tell_swap(swap_gap_.take_early());
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  seat_ = session::seat_of(plan, *taken.rank, std::move(taken.communicator));
  view_reason_ = plan.reason;
  for (auto& share : next_shares_) share.is_lost = share.is_lost || !seat_.counts(share.worker);
  if (taken.kind == Kind::kRejoin) {
    promise_ = Promise{plan, std::move(taken.state_sockets), std::move(taken.cancel), may_keep_replica};
    return;
  }
  promise_.reset();
  expect_learning_rate(plan);
  send_state(taken);
  enter_lineage(seat_.generation, progress_.committed_step + 1, plan.lineage, true);
  monitors_->seated(seat_.generation, progress_.committed_step);
  swap_gap_.swapped(seat_.generation);
  tell_audits_of_the_lost(before, seat_.holders);
}

// A joiner that is at the right step but has not received all of its state: its open step has an empty batch, so the
// state may still arrive while it waits in the step's all-reduce.
bool Session::Impl::continue_step_without_state() {
  return receive_header(*std::exchange(promise_, std::nullopt)) || take_recovery_seat();
}

Status Session::Impl::repeat_step() {
  weigh_step();
  step_->lane_sent = false;
  step_->has_equal_state = false;
  step_->local_square_sum = step_->reduced_square_sum = 0;
  for (auto& bucket : step_->buckets) {
    if (auto status = reduce_bucket(bucket); !status) return status;
  }
  return {};
}

// The step that the others finish without this worker: its result in the program is replaced by the state that they
// send.
void Session::Impl::discard_step() {
  clock_.step_ends(session::Clock::now());
  step_.reset();
  plane_->step_discarded();
  rejoin();
}

void Session::Impl::rejoin() {
  while (outcome_ == Outcome::kRunning) {
    if (has_left_) return park();
    if (promise_ && receive_header(*std::exchange(promise_, std::nullopt))) break;
    take_recovery_seat();
  }
  if (outcome_ == Outcome::kRunning) publish_seat(false, view_reason_);
}

// No recovery can come anymore: the last committed step is saved, once per host, because any host may be the only one
// left.
void Session::Impl::stop_as_orphan() {
  if (seat_.local_rank == 0 && plane_->has_state()) write_checkpoint();
  tell_audits();
  outcome_ = Outcome::kStopped;
}

// The records of members whose shares counted in steps that they can no longer report. Each of `holders` does it,
// because any of them may be lost next.
void Session::Impl::tell_audits_of_the_lost(const std::vector<state::WorkerShare>& before,
                                            const std::vector<WorkerId>& holders) {
  const auto holds = [&](WorkerId worker) {
    return std::find(holders.begin(), holders.end(), worker) != holders.end();
  };
  if (environment_.audit_every == 0 || !holds(environment_.worker)) return;
  std::set<WorkerId> lost;
  const auto look = [&](const std::vector<state::WorkerShare>& shares) {
    for (const auto& share : shares) {
      if (!holds(share.worker)) lost.insert(share.worker);
    }
  };
  look(before);
  look(std::exchange(shares_before_, {}));
  look(next_shares_);
  for (const WorkerId worker : lost) audit_log_->add_for(worker);
  if (lost.empty()) return;
  // This worker cannot report step by step what led to the state that it received, and the workers that could may be
  // lost.
  if (const auto received = std::exchange(received_, std::nullopt)) {
    audit_log_->add_state(received->generation, received->progress);
  }
  tell_audits();
}

// No worker leaves before all have the complete state: a worker that is behind may need any of the others as a donor.
void Session::Impl::finish_training() {
  while (outcome_ == Outcome::kRunning && data_is_used_up()) {
    Status status = plane_ ? finish_transfers() : Status();
    if (status && replicas_differ()) status = end_with_equal_replicas();
    if (status) {
      checkpoint();
      status = plane_ ? last_barrier() : Status();
    }
    if (status) {
      finish_told_ = plane_ != nullptr;
      if (plane_) plane_->finished();
      outcome_ = Outcome::kFinished;
    } else if (!take_recovery_seat()) {
      rejoin();
    }
  }
}

Status Session::Impl::last_barrier() {
  if (!plane_->enter_collective()) return Error{ErrorCode::kAborted, "this worker is halted"};
  const Status status = seat_.communicator->barrier();
  if (!status) plane_->collective_failed("the barrier at the end of the data failed: " + status.error().message);
  return status;
}

}  // namespace elastictrain
