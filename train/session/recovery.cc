#include "train/session/recovery.h"

#include <string>
#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::session {

bool Recovery::take_seat() {
  auto taken = parts_.plane->wait_seat();
  parts_.handover.drop();  // it is neither sent to nor received from members of the old seat
  if (!taken) {
    stop_as_orphan();
    return false;
  }
  if (taken->kind == Kind::kDisagreed) parts_.lifecycle.fail(taken->disagreement);
  if (taken->kind == Kind::kContinue) {
    sit_down(std::move(*taken));
    return true;
  }
  if (taken->kind != Kind::kRejoin) return end_here(*taken);
  const bool keeps_step = parts_.runner.is_open() && parts_.course.committed_step() == taken->plan.resume_step;
  sit_down(std::move(*taken));
  return keeps_step && continue_step_without_state();
}

// This worker has no place in what follows.
bool Recovery::end_here(const TakenSeat& taken) {
  if (taken.kind == Kind::kDismissed) {
    parts_.lifecycle.outcome = Outcome::kLeft;
    return false;
  }
  const bool stops = taken.kind == Kind::kStop;
  if (stops) {
    parts_.audits.report_lost(parts_.seating.seat().shares, taken.plan.donors);
    if (taken.writes_checkpoint) parts_.checkpoints.write();
  }
  parts_.membership.leave(taken.plan, stops ? Outcome::kStopped : Outcome::kLeft);
  return false;
}

void Recovery::sit_down(TakenSeat taken) {
  const auto& plan = taken.plan;
  const bool continues = taken.kind == Kind::kContinue;
  const Step step = parts_.course.committed_step();
  if (continues && step != plan.resume_step) {
    parts_.lifecycle.fail("internal error: generation " + std::to_string(plan.generation) + " continues from step " +
                          std::to_string(plan.resume_step) + " with a worker at step " + std::to_string(step));
  }
  const Seat& seat = parts_.seating.seat();
  ET_CHECK(plan.generation > seat.generation, "generations only rise");
  const bool may_keep_replica = has_own_replica();
  parts_.measurements.report_swap_early();
  const auto before = parts_.seating.replace_by(seat_of(plan, *taken.rank, std::move(taken.communicator)));
  parts_.course.drop_shares_without_gradients(seat);
  promise_.reset();
  if (continues) return continue_on_seat(taken, before);
  promise_ = PromisedState{plan, std::move(taken.state_sockets), std::move(taken.cancel), may_keep_replica};
}

void Recovery::continue_on_seat(TakenSeat& taken, const std::vector<state::WorkerShare>& before) {
  const Seat& seat = parts_.seating.seat();
  parts_.course.expect_learning_rate(taken.plan);
  parts_.handover.send(taken);
  parts_.checkpoints.enter(taken.plan.lineage, true);
  parts_.measurements.seated(seat.generation, parts_.course.committed_step());
  parts_.measurements.swapped(seat.generation);
  parts_.audits.report_lost(before, seat.holders);
}

// Whether this worker has a replica that no other worker has, or is about to finish a step that makes it one.
bool Recovery::has_own_replica() const {
  const bool differs = parts_.runner.is_open() ? parts_.runner.step().averages : parts_.course.replicas_differ();
  return parts_.replicas.is_whole() && differs;
}

// A joiner that is at the right step but has not received all of its state: its open step has an empty batch, so the
// state may still arrive while it waits in the step's all-reduce.
bool Recovery::continue_step_without_state() {
  return parts_.membership.enter(*std::exchange(promise_, std::nullopt)) || take_seat();
}

void Recovery::rejoin() {
  while (parts_.lifecycle.is_running()) {
    if (parts_.lifecycle.parks) return;
    if (promise_ && parts_.membership.enter(*std::exchange(promise_, std::nullopt))) break;
    take_seat();
  }
  if (parts_.lifecycle.is_running()) parts_.view.publish();
}

// No recovery can come anymore: the last committed step is saved, once per host, because any host may be the only one
// left.
void Recovery::stop_as_orphan() {
  if (parts_.seating.seat().local_rank == 0 && parts_.plane->has_state()) parts_.checkpoints.write();
  parts_.audits.report();
  parts_.lifecycle.outcome = Outcome::kStopped;
}

}  // namespace elastictrain::session
