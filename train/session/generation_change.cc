#include "train/session/generation_change.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/limits.h"
#include "train/session/state_handover.h"

namespace elastictrain::session {

void AssignmentView::show(std::uint32_t previous_world_size, bool joined_now) {
  view_.rank = assignment_.rank;
  view_.local_rank = assignment_.local_rank;
  view_.world_size = assignment_.world_size();
  view_.generation = assignment_.generation;
  report_missing_model();
  if (!on_change_) return;
  call_program({.generation = view_.generation,
                .rank = view_.rank,
                .world_size = view_.world_size,
                .previous_world_size = previous_world_size,
                .joined_now = joined_now,
                .reason = assignment_.reason});
}

void AssignmentView::call_program(const Change& change) {
  try {
    on_change_(change);
  } catch (...) {
    lifecycle_.failed = true;
    throw;
  }
}

void AssignmentView::report_missing_model() {
  const bool is_asked_to_average = assignment_.synchronization != protocol::Synchronization::kGradients;
  if (!is_asked_to_average || averaging_.applies() || assignment_.rank != 0) return;
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

void GenerationChange::announce() {
  const DataOptions& data = parts_.run_progress.data();
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

std::string GenerationChange::describe_state() const {
  auto items = parts_.buffers.describe(limits::kMaxStateItemsBytes);
  if (items.size() + parts_.local.items().size() <= limits::kMaxStateItemsBytes) items += parts_.local.items();
  return items;
}

bool GenerationChange::take_first_assignment() {
  while (true) {
    auto taken = parts_.plane->wait_assignment();
    if (!taken) return end_before_assignment(Outcome::kStopped);
    if (taken->kind == ControlPlane::AssignmentKind::kDismissed) return end_before_assignment(Outcome::kLeft);
    const bool joins = !joiner_ranks(taken->plan).empty();
    if (joins ? join(std::move(*taken)) : begin_first_generation(std::move(*taken))) return true;
    parts_.exchange.leave();
  }
}

bool GenerationChange::end_before_assignment(Outcome outcome) {
  parts_.lifecycle.outcome = outcome;
  return false;
}

bool GenerationChange::begin_first_generation(TakenAssignment taken) {
  const auto& plan = taken.plan;
  const Assignment& assignment = parts_.exchange.assignment();
  parts_.run_progress.begin(first_shares(plan), plan.learning_rate_factor);
  parts_.exchange.take_first(assignment_of(plan, *taken.rank, std::move(taken.communicator)));
  parts_.log.event("pg", assignment.rank, assignment.world_size(), assignment.generation);
  parts_.checkpoints.resume();
  require_a_beginning();
  if (const Status replicated = replicate_from_first_rank(); !replicated) {
    const auto code = replicated.error().code;
    if (code == ErrorCode::kInvalid || code == ErrorCode::kMismatch) parts_.lifecycle.fail(replicated.error().message);
    parts_.plane->collective_failed(replicated.error().message);
    return false;
  }
  if (!parts_.plane->enter_loop(parts_.run_progress.committed_step(), true)) return false;
  begin_training(plan);
  return true;
}

// A run begins with the program's initial state or with a checkpoint.
void GenerationChange::require_a_beginning() {
  if (parts_.exchange.assignment().rank != 0 || !has_foreign_state_ || parts_.run_progress.committed_step() != 0)
    return;
  parts_.lifecycle.fail(
      "no worker or checkpoint is left of the run whose state this worker holds; start "
      "this worker again");
}

void GenerationChange::begin_training(const protocol::GenerationPlan& plan) {
  const Assignment& assignment = parts_.exchange.assignment();
  parts_.replicas.set_whole();
  parts_.forward.adopt();
  parts_.first.adopt();
  resume_local_state();
  parts_.checkpoints.enter_first(plan.lineage);
  account_for_checkpoint();
  parts_.measurements.assigned(assignment.generation, parts_.run_progress.committed_step());
  parts_.plane->send(protocol::WorkerActive{plan.generation, parts_.run_progress.next_step(), 0});
  parts_.log.event("ready", assignment.rank, assignment.world_size(), assignment.generation);
  parts_.view.publish_first(0);
}

// A first generation that does not begin at the first step begins with a checkpoint.
void GenerationChange::resume_local_state() {
  if (parts_.run_progress.committed_step() == 0 || parts_.local.adopt(parts_.early, parts_.exchange.assignment().rank))
    return;
  parts_.plane->send(protocol::WorkerNote{
      "local_state", "the checkpoint has no local state of this rank and layout; it begins with its initial one"});
}

Status GenerationChange::replicate_from_first_rank() {
  const Assignment& assignment = parts_.exchange.assignment();
  auto mine = parts_.handover.header();
  mine.attachments = parts_.attachments.resumed();
  const auto first = broadcast_header(assignment, mine);
  if (!first) return first.error();
  parts_.attachments.resume(first->attachments);
  parts_.run_progress.adopt(first->progress);
  parts_.early.adopt(*first);
  const bool is_initial = parts_.run_progress.committed_step() == 0 && !has_foreign_state_;
  has_foreign_state_ = has_foreign_state_ || (assignment.rank != 0 && parts_.run_progress.committed_step() != 0);
  const bool compares = is_initial && assignment.rank != 0 && assignment.rank < kRanksThatCompare;
  const auto replaced = broadcast_state(assignment, parts_.buffers, compares);
  if (!replaced) return replaced.error();
  if (!replaced->empty()) parts_.plane->send(protocol::WorkerNote{"state_replaced", describe_replaced(*replaced)});
  return {};
}

// The worker that has read the checkpoint reports its content. The others report it if that worker is lost.
void GenerationChange::account_for_checkpoint() {
  if (parts_.run_progress.committed_step() == 0 || !parts_.audits.is_on()) return;
  if (parts_.checkpoints.is_resumed_here()) {
    return parts_.audits.account_for_checkpoint(parts_.checkpoints.is_counted_anew());
  }
  parts_.audits.state_received();
}

bool GenerationChange::join(TakenAssignment taken) {
  const auto rank = *taken.rank;
  const Assignment& assignment = parts_.exchange.assignment();
  parts_.log.event("pg", rank, static_cast<std::uint32_t>(taken.plan.members.size()), taken.plan.generation);
  parts_.exchange.take_first(assignment_of(taken.plan, rank, std::move(taken.communicator)));
  const auto present = std::ranges::count(taken.plan.members, false, &protocol::Member::joiner);
  if (!enter({std::move(taken.plan), std::move(taken.state_sockets), std::move(taken.cancel)})) return false;
  parts_.log.event("ready", assignment.rank, assignment.world_size(), assignment.generation);
  parts_.view.publish_first(static_cast<std::uint32_t>(present));
  return true;
}

bool GenerationChange::enter(PromisedState promise) {
  const auto plan = promise.plan;
  parts_.checkpoints.await_copy();
  const auto header = parts_.handover.receive(std::move(promise));
  if (!header) return false;
  parts_.run_progress.adopt(*header);
  parts_.early.adopt(*header);
  parts_.checkpoints.enter(plan.lineage, plan.fence != 0);
  if (plan.fence != 0) parts_.run_progress.expect_learning_rate(plan);
  parts_.measurements.assigned(plan.generation, parts_.run_progress.committed_step());
  return true;
}

void GenerationChange::change() {
  using Kind = ControlPlane::AssignmentKind;
  auto taken = parts_.plane->take_agreed_assignment();
  if (!taken) parts_.lifecycle.fail("internal error: all workers agreed on a swap that this worker does not have");
  const bool anyone_trains_on = !taken->plan.members.empty();
  // Runs also if an Abort has made the assignment void: other workers have taken it, and all must hold the same
  // numbers.
  if (anyone_trains_on) parts_.run_progress.change_with(taken->plan);
  if (taken->is_void) return;
  if (taken->kind == Kind::kStop) {
    parts_.checkpoints.write_by_first_rank();
  } else if (taken->plan.saves) {
    parts_.checkpoints.begin_by_first_rank();
  }
  if (taken->kind == Kind::kPlanned) return take_planned_assignment(std::move(*taken));
  leave(taken->plan, anyone_trains_on ? Outcome::kLeft : Outcome::kStopped);
}

void GenerationChange::leave(const protocol::GenerationPlan& plan, Outcome outcome) {
  auto& lifecycle = parts_.lifecycle;
  lifecycle.parks = outcome == Outcome::kLeft && parts_.process_may_park;
  if (!lifecycle.parks) lifecycle.outcome = outcome;
  parts_.measurements.report_swap_early();
  parts_.audits.report();
  parts_.plane->send_in_turn([this] { return parts_.measurements.last_heartbeat(); });
  parts_.plane->send(protocol::WorkerLeft{plan.generation, parts_.run_progress.committed_step()});
}

void GenerationChange::take_planned_assignment(TakenAssignment taken) {
  const Assignment& assignment = parts_.exchange.assignment();
  ET_CHECK(taken.plan.generation > assignment.generation, "generations only rise");
  parts_.measurements.report_swap_early();
  parts_.audits.remember(
      parts_.exchange.move_to(assignment_of(taken.plan, *taken.rank, std::move(taken.communicator))));
  parts_.handover.send(taken);
  parts_.checkpoints.enter(taken.plan.lineage, false);
  parts_.audits.report_leavers();
  parts_.measurements.assigned(assignment.generation, parts_.run_progress.committed_step());
  parts_.measurements.swapped(assignment.generation);
  parts_.view.publish();
}

bool Recovery::take_assignment() {
  auto taken = parts_.plane->wait_assignment();
  parts_.handover.drop();  // it is neither sent to nor received from members of the old assignment
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
  const bool keeps_step = parts_.runner.is_open() && parts_.run_progress.committed_step() == taken->plan.resume_step;
  sit_down(std::move(*taken));
  return keeps_step && continue_step_without_state();
}

// This worker has no place in what follows.
bool Recovery::end_here(const TakenAssignment& taken) {
  if (taken.kind == Kind::kDismissed) {
    parts_.lifecycle.outcome = Outcome::kLeft;
    return false;
  }
  const bool stops = taken.kind == Kind::kStop;
  if (stops) {
    parts_.audits.report_lost(parts_.exchange.assignment().shares, taken.plan.donors);
    if (taken.writes_checkpoint) parts_.checkpoints.write();
  }
  parts_.generation_change.leave(taken.plan, stops ? Outcome::kStopped : Outcome::kLeft);
  return false;
}

void Recovery::sit_down(TakenAssignment taken) {
  const auto& plan = taken.plan;
  const bool continues = taken.kind == Kind::kContinue;
  const Step step = parts_.run_progress.committed_step();
  if (continues && step != plan.resume_step) {
    parts_.lifecycle.fail("internal error: generation " + std::to_string(plan.generation) + " continues from step " +
                          std::to_string(plan.resume_step) + " with a worker at step " + std::to_string(step));
  }
  const Assignment& assignment = parts_.exchange.assignment();
  ET_CHECK(plan.generation > assignment.generation, "generations only rise");
  const bool may_keep_replica = has_own_replica();
  parts_.measurements.report_swap_early();
  const auto before = parts_.exchange.replace_by(assignment_of(plan, *taken.rank, std::move(taken.communicator)));
  parts_.run_progress.drop_shares_without_gradients(assignment);
  promise_.reset();
  if (continues) return continue_on_assignment(taken, before);
  promise_ = PromisedState{plan, std::move(taken.state_sockets), std::move(taken.cancel), may_keep_replica};
}

void Recovery::continue_on_assignment(TakenAssignment& taken, const std::vector<state::WorkerShare>& before) {
  const Assignment& assignment = parts_.exchange.assignment();
  parts_.run_progress.expect_learning_rate(taken.plan);
  parts_.handover.send(taken);
  parts_.checkpoints.enter(taken.plan.lineage, true);
  parts_.measurements.assigned(assignment.generation, parts_.run_progress.committed_step());
  parts_.measurements.swapped(assignment.generation);
  parts_.audits.report_lost(before, assignment.holders);
}

// Whether this worker has a replica that no other worker has, or is about to finish a step that makes it one.
bool Recovery::has_own_replica() const {
  const bool differs = parts_.runner.is_open() ? parts_.runner.step().averages : parts_.run_progress.replicas_differ();
  return parts_.replicas.is_whole() && differs;
}

// A joiner that is at the right step but has not received all of its state: its open step has an empty batch, so the
// state may still arrive while it waits in the step's all-reduce.
bool Recovery::continue_step_without_state() {
  return parts_.generation_change.enter(*std::exchange(promise_, std::nullopt)) || take_assignment();
}

void Recovery::rejoin() {
  while (parts_.lifecycle.is_running()) {
    if (parts_.lifecycle.parks) return;
    if (promise_ && parts_.generation_change.enter(*std::exchange(promise_, std::nullopt))) break;
    take_assignment();
  }
  if (parts_.lifecycle.is_running()) parts_.view.publish();
}

// No recovery can come anymore: the last committed step is saved, once per host, because any host may be the only one
// left.
void Recovery::stop_as_orphan() {
  if (parts_.exchange.assignment().local_rank == 0 && parts_.plane->has_state()) parts_.checkpoints.write();
  parts_.audits.report();
  parts_.lifecycle.outcome = Outcome::kStopped;
}

}  // namespace elastictrain::session
