#include "train/session/generation_change.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/limits.h"
#include "train/session/state_handover.h"

namespace elastictrain::session {

void SeatView::show(std::uint32_t previous_world_size, bool joined_now) {
  view_.rank = seat_.rank;
  view_.local_rank = seat_.local_rank;
  view_.world_size = seat_.world_size();
  view_.generation = seat_.generation;
  report_missing_model();
  if (!on_change_) return;
  call_program({.generation = view_.generation,
                .rank = view_.rank,
                .world_size = view_.world_size,
                .previous_world_size = previous_world_size,
                .joined_now = joined_now,
                .reason = seat_.reason});
}

void SeatView::call_program(const Change& change) {
  try {
    on_change_(change);
  } catch (...) {
    lifecycle_.failed = true;
    throw;
  }
}

void SeatView::report_missing_model() {
  const bool is_asked_to_average = seat_.synchronization != protocol::Synchronization::kGradients;
  if (!is_asked_to_average || averaging_.applies() || seat_.rank != 0) return;
  reports_.tell("synchronization", "gradients are averaged: the program shares no model; call share_model() for it");
}

namespace {

constexpr std::uint32_t kRanksThatCompare = 16;  // enough to notice a program whose workers begin unequal

std::string describe_replaced(const std::vector<std::string>& names) {
  const std::string others = names.size() == 1 ? "" : " and " + std::to_string(names.size() - 1) + " more";
  return "\"" + names.front() + "\"" + others +
         " began with other values here than on the first rank; the first rank's count. Give all workers the same seed "
         "if that was not intended";
}

}  // namespace

void Membership::announce() {
  const DataOptions& data = parts_.course.data();
  const Status announced =
      parts_.plane->announce({.state_bytes = parts_.buffers.total_bytes(),
                              .state_layout_hash = parts_.buffers.layout_hash() ^ parts_.local.layout(),
                              .sample_count = data.sample_count,
                              .batch = data.batch,
                              .epochs = data.epochs,
                              .max_steps = data.max_steps,
                              .division = {.is_known = true,
                                           .seed = data.seed,
                                           .shuffle = data.shuffle,
                                           .min_local_samples = data.min_local_samples,
                                           .drop_last = data.drop_last,
                                           .batches_per_step = data.batches_per_step},
                              .state_items = describe_state(),
                              .batch_of_all = data.batch_of_all});
  if (!announced) parts_.lifecycle.fail(announced.error().message);
}

std::string Membership::describe_state() const {
  auto items = parts_.buffers.describe(limits::kMaxStateItemsBytes);
  if (items.size() + parts_.local.items().size() <= limits::kMaxStateItemsBytes) items += parts_.local.items();
  return items;
}

bool Membership::take_first_seat() {
  while (true) {
    auto taken = parts_.plane->wait_seat();
    if (!taken) return end_before_seat(Outcome::kStopped);
    if (taken->kind == ControlPlane::SeatKind::kDismissed) return end_before_seat(Outcome::kLeft);
    const bool joins = !joiner_ranks(taken->plan).empty();
    if (joins ? join(std::move(*taken)) : begin_first_generation(std::move(*taken))) return true;
    parts_.seating.leave();
  }
}

bool Membership::end_before_seat(Outcome outcome) {
  parts_.lifecycle.outcome = outcome;
  return false;
}

bool Membership::begin_first_generation(TakenSeat taken) {
  const auto& plan = taken.plan;
  const Seat& seat = parts_.seating.seat();
  parts_.course.begin(first_shares(plan), plan.learning_rate_factor);
  parts_.seating.take_first(seat_of(plan, *taken.rank, std::move(taken.communicator)));
  parts_.log.event("pg", seat.rank, seat.world_size(), seat.generation);
  parts_.checkpoints.resume();
  require_a_beginning();
  if (const Status replicated = replicate_from_first_rank(); !replicated) {
    const auto code = replicated.error().code;
    if (code == ErrorCode::kInvalid || code == ErrorCode::kMismatch) parts_.lifecycle.fail(replicated.error().message);
    parts_.plane->collective_failed(replicated.error().message);
    return false;
  }
  if (!parts_.plane->enter_loop(parts_.course.committed_step(), true)) return false;
  begin_training(plan);
  return true;
}

// A run begins with the program's initial state or with a checkpoint.
void Membership::require_a_beginning() {
  if (parts_.seating.seat().rank != 0 || !has_foreign_state_ || parts_.course.committed_step() != 0) return;
  parts_.lifecycle.fail(
      "no worker or checkpoint is left of the run whose state this worker holds; start "
      "this worker again");
}

void Membership::begin_training(const protocol::GenerationPlan& plan) {
  const Seat& seat = parts_.seating.seat();
  parts_.replicas.set_whole();
  parts_.forward.adopt();
  parts_.first.adopt();
  resume_local_state();
  parts_.checkpoints.enter(plan.lineage, parts_.checkpoints.found_earlier());
  account_for_checkpoint();
  parts_.measurements.seated(seat.generation, parts_.course.committed_step());
  parts_.plane->send(protocol::WorkerActive{plan.generation, parts_.course.next_step(), 0});
  parts_.log.event("ready", seat.rank, seat.world_size(), seat.generation);
  parts_.view.publish_first(0);
}

// A first generation that does not begin at the first step begins with a checkpoint.
void Membership::resume_local_state() {
  if (parts_.course.committed_step() == 0 || parts_.local.adopt(parts_.early, parts_.seating.seat().rank)) return;
  parts_.plane->send(protocol::WorkerNote{
      "local_state", "the checkpoint has no local state of this rank and layout; it begins with its initial one"});
}

Status Membership::replicate_from_first_rank() {
  const Seat& seat = parts_.seating.seat();
  auto mine = parts_.handover.header();
  mine.attachments = parts_.attachments.resumed();
  const auto first = broadcast_header(seat, mine);
  if (!first) return first.error();
  parts_.attachments.resume(first->attachments);
  parts_.course.adopt(first->progress);
  parts_.early.adopt(*first);
  const bool is_initial = parts_.course.committed_step() == 0 && !has_foreign_state_;
  has_foreign_state_ = has_foreign_state_ || (seat.rank != 0 && parts_.course.committed_step() != 0);
  const bool compares = is_initial && seat.rank != 0 && seat.rank < kRanksThatCompare;
  const auto replaced = broadcast_state(seat, parts_.buffers, compares);
  if (!replaced) return replaced.error();
  if (!replaced->empty()) parts_.plane->send(protocol::WorkerNote{"state_replaced", describe_replaced(*replaced)});
  return {};
}

// The worker that has read the checkpoint reports its content. The others report it if that worker is lost.
void Membership::account_for_checkpoint() {
  if (parts_.course.committed_step() == 0 || !parts_.audits.is_on()) return;
  if (parts_.checkpoints.is_resumed_here()) return parts_.audits.account_for_checkpoint();
  parts_.audits.state_received();
}

bool Membership::join(TakenSeat taken) {
  const auto rank = *taken.rank;
  const Seat& seat = parts_.seating.seat();
  parts_.log.event("pg", rank, static_cast<std::uint32_t>(taken.plan.members.size()), taken.plan.generation);
  parts_.seating.take_first(seat_of(taken.plan, rank, std::move(taken.communicator)));
  const auto present = std::ranges::count(taken.plan.members, false, &protocol::Member::joiner);
  if (!enter({std::move(taken.plan), std::move(taken.state_sockets), std::move(taken.cancel)})) return false;
  parts_.log.event("ready", seat.rank, seat.world_size(), seat.generation);
  parts_.view.publish_first(static_cast<std::uint32_t>(present));
  return true;
}

bool Membership::enter(PromisedState promise) {
  const auto plan = promise.plan;
  parts_.checkpoints.await_copy();
  const auto header = parts_.handover.receive(std::move(promise));
  if (!header) return false;
  parts_.course.adopt(*header);
  parts_.early.adopt(*header);
  parts_.checkpoints.enter(plan.lineage, plan.fence != 0);
  if (plan.fence != 0) parts_.course.expect_learning_rate(plan);
  parts_.measurements.seated(plan.generation, parts_.course.committed_step());
  return true;
}

void Membership::change() {
  using Kind = ControlPlane::SeatKind;
  auto taken = parts_.plane->take_agreed_seat();
  if (!taken) parts_.lifecycle.fail("internal error: all workers agreed on a swap that this worker does not have");
  const bool anyone_trains_on = !taken->plan.members.empty();
  // Runs also if an Abort has made the seat void: other workers have taken it, and all must hold the same numbers.
  if (anyone_trains_on) parts_.course.change_with(taken->plan);
  if (taken->is_void) return;
  if (taken->kind == Kind::kStop) {
    parts_.checkpoints.write_by_first_rank();
  } else if (taken->plan.saves) {
    parts_.checkpoints.begin_by_first_rank();
  }
  if (taken->kind == Kind::kPlanned) return take_planned_seat(std::move(*taken));
  leave(taken->plan, anyone_trains_on ? Outcome::kLeft : Outcome::kStopped);
}

void Membership::leave(const protocol::GenerationPlan& plan, Outcome outcome) {
  auto& lifecycle = parts_.lifecycle;
  lifecycle.parks = outcome == Outcome::kLeft && parts_.process_may_park;
  if (!lifecycle.parks) lifecycle.outcome = outcome;
  parts_.measurements.report_swap_early();
  parts_.audits.report();
  parts_.plane->send_in_turn([this] { return parts_.measurements.last_heartbeat(); });
  parts_.plane->send(protocol::WorkerLeft{plan.generation, parts_.course.committed_step()});
}

void Membership::take_planned_seat(TakenSeat taken) {
  const Seat& seat = parts_.seating.seat();
  ET_CHECK(taken.plan.generation > seat.generation, "generations only rise");
  parts_.measurements.report_swap_early();
  parts_.audits.remember(parts_.seating.move_to(seat_of(taken.plan, *taken.rank, std::move(taken.communicator))));
  parts_.handover.send(taken);
  parts_.checkpoints.enter(taken.plan.lineage, false);
  parts_.audits.report_leavers();
  parts_.measurements.seated(seat.generation, parts_.course.committed_step());
  parts_.measurements.swapped(seat.generation);
  parts_.view.publish();
}

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
