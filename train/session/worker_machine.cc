#include "train/session/worker_machine.h"

#include <algorithm>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::session {
namespace {

std::optional<std::uint32_t> rank_of(const protocol::GenerationPlan& plan, WorkerId worker) {
  for (std::uint32_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].worker == worker) return rank;
  }
  return std::nullopt;
}

}  // namespace

void WorkerMachine::hear(const protocol::WorkerDown& message) {
  if (over_) return;
  if (const auto* prepared = std::get_if<protocol::Prepare>(&message)) {
    prepare(prepared->plan);
  } else if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
    const auto upcoming = find(commit->generation);
    if (upcoming != upcoming_.end()) upcoming->committed = true;
  } else if (const auto* cancelled = std::get_if<protocol::Cancel>(&message)) {
    cancel(cancelled->generation);
  } else if (const auto* aborted = std::get_if<protocol::Abort>(&message)) {
    abort(aborted->fence);
  } else if (std::holds_alternative<protocol::Dismiss>(message)) {
    dismissed_ = true;
  } else if (const auto* disagreed = std::get_if<protocol::Disagreed>(&message)) {
    if (disagreed->generation == broken_ && generation_ == broken_) disagreement_ = disagreed->reason;
  }
  wake();
}

void WorkerMachine::prepare(const protocol::GenerationPlan& plan) {
  const Generation newest = upcoming_.empty() ? generation_ : upcoming_.back().plan.generation;
  if (plan.generation <= std::max(newest, fence_)) return;
  if (plan.fence != 0) {
    // A worker in no generation was not asked to halt. Any other worker has answered this fence already.
    if (plan.fence > fence_ && generation_ == 0) raise_fence(plan.fence);
    if (plan.fence != fence_ || (generation_ != 0 && answered_ != fence_)) return;
  }
  drop_uncommitted_plans();
  Upcoming upcoming{.plan = plan, .rank = rank_of(plan, self_)};
  if (upcoming.rank) {
    effects_.emplace_back(StartBuild{plan, *upcoming.rank});
  } else {
    upcoming.built = true;
    say(protocol::WorkerPrepared{plan.generation});
  }
  ET_CHECK(upcoming_.empty() || upcoming_.back().plan.generation < plan.generation, "plans ascend by generation");
  upcoming_.push_back(std::move(upcoming));
}

// A newer plan replaces them.
void WorkerMachine::drop_uncommitted_plans() {
  std::erase_if(upcoming_, [&](const Upcoming& upcoming) {
    if (upcoming.committed) return false;
    if (upcoming.rank) effects_.emplace_back(DropBuild{upcoming.plan.generation});
    return true;
  });
}

void WorkerMachine::cancel(Generation generation) {
  const auto upcoming = find(generation);
  if (upcoming == upcoming_.end() || upcoming->committed) return;
  if (upcoming->rank) effects_.emplace_back(DropBuild{generation});
  upcoming_.erase(upcoming);
}

void WorkerMachine::abort(Generation fence) {
  if (fence > fence_) {
    raise_fence(fence);
    if (generation_ > fence_) answered_ = fence_;  // from before this assignment
    answer_if_settled();
  } else if (fence == fence_ && answered_ == fence_ && (generation_ == 0 || generation_ <= fence_)) {
    say_halted(fence_, "");  // asked twice: the answer may have been lost
  }
}

void WorkerMachine::device_is_held(const std::string& why) {
  if (over_ || generation_ == 0 || answered_ == fence_ || held_ == fence_) return;
  held_ = fence_;
  say(protocol::WorkerNote{std::string(protocol::kHeldNote), why});
}

void WorkerMachine::raise_fence(Generation fence) {
  ET_CHECK(fence > fence_, "fences only rise");
  fence_ = fence;
  std::erase_if(upcoming_, [&](Upcoming& upcoming) {
    if (upcoming.plan.generation > fence_) return false;
    if (upcoming.rank && !upcoming.dead) effects_.emplace_back(DropBuild{upcoming.plan.generation});
    upcoming.dead = true;
    return !lane_may_agree_on(upcoming);
  });
  if (generation_ != 0 && generation_ <= fence_) effects_.emplace_back(AbortAssignment{});
}

// In the middle of a step this worker may have announced that it is ready for this plan, and all others may have too.
bool WorkerMachine::lane_may_agree_on(const Upcoming& upcoming) const {
  if (!upcoming.ready() || upcoming.plan.fence != 0 || upcoming.plan.previous != generation_) return false;
  return agreed_ == upcoming.plan.generation || place_ == Place::kReducing || place_ == Place::kUpdating;
}

// Not the one that was agreed on and has still to be taken.
void WorkerMachine::drop_dead_plans() {
  std::erase_if(upcoming_,
                [&](const Upcoming& upcoming) { return upcoming.dead && upcoming.plan.generation != agreed_; });
}

// For a worker that has ended; its process may build for another one.
void WorkerMachine::drop_all_plans() {
  for (const auto& upcoming : std::exchange(upcoming_, {})) {
    if (upcoming.rank && !upcoming.dead) effects_.emplace_back(DropBuild{upcoming.plan.generation});
  }
}

bool WorkerMachine::settled() const {
  return place_ != Place::kReducing && place_ != Place::kUpdating;
}

void WorkerMachine::answer_if_settled() {
  if (over_ || answered_ >= fence_ || !settled()) return;
  answered_ = fence_;
  say_halted(fence_, "");
  if (in_loop_) return;
  generation_ = 0;  // back to where it waits for a first assignment
  broken_ = 0;
}

void WorkerMachine::say_halted(Generation fence, const std::string& reason, bool disagrees) {
  say(protocol::WorkerHalted{.fence = fence,
                             .generation = generation_,
                             .committed_step = committed_step_,
                             .has_state = has_state_,
                             .in_loop = in_loop_,
                             .reason = reason,
                             .has_gradients = has_gradients_,
                             .disagrees = disagrees});
}

WorkerMachine::Plans::iterator WorkerMachine::find(Generation generation) {
  return std::find_if(upcoming_.begin(), upcoming_.end(),
                      [&](const Upcoming& upcoming) { return upcoming.plan.generation == generation; });
}

void WorkerMachine::built(Generation generation) {
  const auto upcoming = find(generation);
  if (upcoming == upcoming_.end() || upcoming->dead) return;
  upcoming->built = true;
  say(protocol::WorkerPrepared{generation});
  wake();
}

void WorkerMachine::build_failed(Generation generation, const std::string& reason) {
  const auto upcoming = find(generation);
  if (upcoming == upcoming_.end() || upcoming->dead) return;
  upcoming_.erase(upcoming);
  say(protocol::WorkerPrepareFailed{generation, reason});
}

bool WorkerMachine::enter_loop(Step step, bool complete) {
  if (generation_ == 0 || assignment_is_void()) return false;
  in_loop_ = true;
  committed_step_ = step;
  has_state_ = complete;
  place_ = step_is_open_ ? Place::kComputing : Place::kOutside;
  return true;
}

void WorkerMachine::state_complete() {
  has_state_ = true;
}

void WorkerMachine::step_opened() {
  step_is_open_ = true;
  place_ = Place::kComputing;
}

bool WorkerMachine::enter_collective() {
  if (assignment_is_void()) {
    place_ = Place::kHalted;
    drop_dead_plans();
    answer_if_settled();
    return false;
  }
  place_ = Place::kReducing;
  return true;
}

void WorkerMachine::leave_collective() {
  place_ = step_is_open_ ? Place::kUpdating : Place::kOutside;
  if (step_is_open_) return;
  drop_dead_plans();
  answer_if_settled();
}

void WorkerMachine::collective_failed(const std::string& reason, bool disagrees) {
  if (over_) {
    effects_.emplace_back(AbortAssignment{});
    return;
  }
  if (in_loop_) place_ = Place::kHalted;
  drop_dead_plans();
  if (generation_ == 0 || generation_ <= fence_) return answer_if_settled();
  if (std::exchange(broken_, generation_) == generation_) return;
  // Before its peers, which must stop waiting for this worker, report that they have lost it.
  say_halted(0, reason, disagrees);
  effects_.emplace_back(AbortAssignment{});
}

void WorkerMachine::step_committed(Step step, bool everyone_ready) {
  ET_CHECK(step >= committed_step_, "no committed step is undone");
  committed_step_ = step;
  has_gradients_ = true;
  step_is_open_ = false;
  place_ = Place::kOutside;
  if (everyone_ready) {
    const auto agreed = std::find_if(upcoming_.begin(), upcoming_.end(), [&](const Upcoming& upcoming) {
      return upcoming.ready() && upcoming.plan.fence == 0 && upcoming.plan.previous == generation_;
    });
    if (agreed != upcoming_.end()) agreed_ = agreed->plan.generation;
  } else {
    drop_dead_plans();
  }
  answer_if_settled();
}

void WorkerMachine::step_discarded() {
  step_is_open_ = false;
  place_ = Place::kHalted;
  answer_if_settled();
}

void WorkerMachine::checkpoint_begins() {
  if (place_ == Place::kOutside) place_ = Place::kCheckpoint;
}

void WorkerMachine::checkpoint_ends() {
  if (place_ == Place::kCheckpoint) place_ = Place::kOutside;
}

void WorkerMachine::finished() {
  place_ = Place::kOutside;
  over_ = true;
  say(protocol::WorkerFinished{committed_step_});
}

const protocol::GenerationPlan* WorkerMachine::ready_plan() const {
  if (generation_ == 0 || assignment_is_void()) return nullptr;
  const auto found = std::find_if(upcoming_.begin(), upcoming_.end(), [&](const Upcoming& upcoming) {
    return upcoming.ready() && !upcoming.dead && upcoming.plan.fence == 0 && upcoming.plan.previous == generation_;
  });
  return found == upcoming_.end() ? nullptr : &found->plan;
}

std::optional<WorkerMachine::NextAssignment> WorkerMachine::take_assignment(bool at_boundary) {
  if (over_) return std::nullopt;
  if (at_boundary) return take_agreed();
  if (disagreement_) return NextAssignment{.kind = AssignmentKind::kDisagreed, .disagreement = *disagreement_};
  std::optional<NextAssignment> next;
  if (in_loop_ && assignment_is_void()) next = take_recovery();
  if (!in_loop_ && generation_ == 0) next = take_first();
  if (next || !dismissed_ || (in_loop_ && !assignment_is_void())) return next;
  over_ = true;
  return NextAssignment{.kind = AssignmentKind::kDismissed};
}

// The assignment becomes the current one if this worker has a place in it; plans up to it are obsolete.
WorkerMachine::NextAssignment WorkerMachine::take(Plans::iterator upcoming, AssignmentKind kind) {
  NextAssignment next{
      .kind = kind, .plan = std::move(upcoming->plan), .rank = upcoming->rank, .is_void = upcoming->dead};
  const Generation generation = next.plan.generation;
  std::erase_if(upcoming_, [&](const Upcoming& other) {
    if (other.plan.generation > generation) return false;
    if (other.plan.generation != generation && other.rank && !other.dead) {
      effects_.emplace_back(DropBuild{other.plan.generation});
    }
    return true;
  });
  if (next.rank) {
    ET_CHECK(generation > generation_, "generations only rise");
    generation_ = generation;
  } else if (!next.is_void) {
    over_ = true;
    drop_all_plans();
  }
  return next;
}

std::optional<WorkerMachine::NextAssignment> WorkerMachine::take_agreed() {
  const auto agreed = find(std::exchange(agreed_, 0));
  if (agreed == upcoming_.end()) return std::nullopt;
  if (agreed->rank) return take(agreed, AssignmentKind::kPlanned);
  return take(agreed, agreed->plan.members.empty() ? AssignmentKind::kStop : AssignmentKind::kLeave);
}

bool WorkerMachine::start_is_decided() const {
  return over_ || dismissed_ || std::any_of(upcoming_.begin(), upcoming_.end(), is_place);
}

bool WorkerMachine::is_place(const Upcoming& upcoming) {
  return upcoming.ready() && upcoming.rank;
}

std::optional<WorkerMachine::NextAssignment> WorkerMachine::take_first() {
  const auto first = std::find_if(upcoming_.begin(), upcoming_.end(), is_place);
  if (first == upcoming_.end()) return std::nullopt;
  return take(first, AssignmentKind::kPlanned);
}

std::optional<WorkerMachine::NextAssignment> WorkerMachine::take_recovery() {
  if (answered_ != fence_) return std::nullopt;
  const auto found = std::find_if(upcoming_.begin(), upcoming_.end(), [&](const Upcoming& upcoming) {
    return upcoming.ready() && upcoming.plan.fence == fence_ && fence_ != 0;
  });
  if (found == upcoming_.end()) return std::nullopt;
  if (!found->rank) {
    const bool stops = found->plan.members.empty();
    auto next = take(found, stops ? AssignmentKind::kStop : AssignmentKind::kLeave);
    const auto& holders = next.plan.donors;
    next.writes_checkpoint = stops && !holders.empty() && holders.front() == self_;
    return next;
  }
  const bool joins = found->plan.members[*found->rank].joiner;
  auto next = take(found, joins ? AssignmentKind::kRejoin : AssignmentKind::kContinue);
  if (joins) {
    has_state_ = false;
    has_gradients_ = false;
    place_ = step_is_open_ ? Place::kComputing : Place::kHalted;
  } else {
    place_ = step_is_open_ ? Place::kComputing : Place::kOutside;
  }
  return next;
}

}  // namespace elastictrain::session
