// The part of the state machine that leads a run from a loss to the generation that follows it: a fence ends every
// collective, every remaining worker reports its last step, and the holders of the newest state continue together.
#include <algorithm>
#include <set>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kRecoveryRetries = 3;
constexpr Millis kFirstRecoveryRetryDelay{100};  // doubles with each; all workers wait, so it is short

}  // namespace

// A training worker is gone (or cannot continue), and the roster is already updated. `why` may be empty: nothing to
// report.
void Membership::Impl::recover(const std::string& why) {
  if (end_.mode == EndMode::kNow) return;
  if (!recovering() || change_.stage == Stage::kCommitted) {
    begin_recovery(why);
    return;
  }
  if (!why.empty()) recovery_.reasons.push_back(why);
  if (change_.stage == Stage::kPreparing) cancel_change(why.empty() ? "a member left" : why);
  set_members(living_members());
  dirty_ = true;
}

void Membership::Impl::begin_recovery(const std::string& why) {
  if (change_.stage == Stage::kPreparing) cancel_change(why.empty() ? "a recovery begins" : why);
  cancel(change_.timer);
  size_before_loss_ = std::max(size_before_loss_, members_.size());
  fold_change();
  change_ = Change{};
  hangs_.hold();
  change_.stage = Stage::kHalting;
  change_.kind = protocol::ChangeKind::kRecover;
  fence_ = recovery_.fence = ++issued_;
  if (!why.empty()) recovery_.reasons.push_back(why);
  set_members(living_members());
  recovery_.waiting = {members_.begin(), members_.end()};
  for (auto& [id, worker] : roster_.workers()) worker.halted.reset();
  journal(record::Abort{recovery_.fence, generation_, recovery_cause(), members_}, true);
  if (!members_.empty()) send(members_, protocol::Abort{recovery_.fence, recovery_cause()});
  cancel(recovery_.halt_timer);
  recovery_.halt_timer = arm({TimerKind::kHalt, {}, {}}, now_ + settings_.failures.halt_timeout);
  dirty_ = true;
}

// Members of a committed change are in the old generation or in the new one: both count until they have reported which.
void Membership::Impl::fold_change() {
  std::vector<WorkerId> order = members_;
  if (change_.stage == Stage::kCommitted) {
    order = change_.members;
    for (WorkerId id : members_) {
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
    recovery_.taken = change_.generation;
    recovery_.taken_first_step = recovering() ? recovery_.resume_step + 1 : change_.first_step;
  }
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) recovery_.ranks.try_emplace(members_[rank], rank);
  if (change_.stage == Stage::kCommitted) {
    for (std::uint32_t rank = 0; rank < change_.members.size(); ++rank) recovery_.ranks[change_.members[rank]] = rank;
  }
  recovery_.order = std::move(order);
}

std::vector<WorkerId> Membership::Impl::living_members() const {
  std::vector<WorkerId> living;
  for (WorkerId id : recovery_.order) {
    const Worker* worker = roster_.worker(id);
    if (worker != nullptr && worker->trains()) living.push_back(id);
  }
  return living;
}

void Membership::Impl::said(Worker& worker, const protocol::WorkerHalted& message) {
  if (!worker.trains()) return;
  if (message.fence == 0) {
    halted_by_itself(worker, message);
    return;
  }
  if (change_.stage != Stage::kHalting || message.fence != recovery_.fence) return;
  if (recovery_.waiting.erase(worker.id) == 0) return;
  worker.halted = message;
  journal_halted(worker, message);
  if (recovery_.waiting.empty()) dirty_ = true;
}

// A collective failed, but no loss is known (yet).
void Membership::Impl::halted_by_itself(Worker& worker, const protocol::WorkerHalted& message) {
  if (message.generation <= fence_) return;
  journal_halted(worker, message);
  forget_repaired_losses();
  recovery_.suspicion = name_of(worker) + " could not continue: " + message.reason;
  doubt_cut_off_agents(worker.agent);
  if (!recovering() || change_.stage == Stage::kCommitted) begin_recovery("");
}

void Membership::Impl::journal_halted(const Worker& worker, const protocol::WorkerHalted& message) {
  record::Halted halted{
      worker.id, message.fence, message.generation, message.committed_step, message.has_state, message.in_loop, {}};
  if (!message.reason.empty()) halted.reason = message.reason;
  journal(std::move(halted));
}

void Membership::Impl::halt_timed_out() {
  recovery_.halt_timer = 0;
  if (change_.stage != Stage::kHalting) return;
  const std::set<WorkerId> late(recovery_.waiting.begin(), recovery_.waiting.end());
  for (WorkerId id : late) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || end_.mode == EndMode::kNow) continue;
    Agent& agent = *roster_.agent(worker->agent);
    if (agent.cut_off) {
      lose_agent(agent, agent.lost_reason);
      continue;
    }
    end_hung(*worker,
             "did not leave its step within " + std::to_string(settings_.failures.halt_timeout.count()) + " ms");
  }
}

// While a recovery is in progress nothing else changes; the desired state is looked at again afterwards.
void Membership::Impl::advance_recovery() {
  if (change_.stage == Stage::kHalting && recovery_.waiting.empty()) settle_halt();
  if (change_.stage == Stage::kPreparing && !all_live(change_.members)) cancel_change("a new worker is gone");
  if (change_.stage == Stage::kGathering) gather_recovery();
  if (change_.stage == Stage::kCommitted && change_.waiting.empty()) complete();
}

// Every remaining worker has answered: which step counts, and which workers hold its state?
void Membership::Impl::settle_halt() {
  for (WorkerId id : living_members()) {
    Worker& worker = *roster_.worker(id);
    if (!worker.ready && end_.mode != EndMode::kNow) end_hung(worker, "did not report its address again");
  }
  if (!recovering()) return;
  cancel(recovery_.halt_timer);
  Generation newest = generation_;
  for (WorkerId id : living_members()) newest = std::max(newest, roster_.worker(id)->halted->generation);
  if (newest > generation_) {
    generation_ = newest;
    if (newest == recovery_.taken) remember_generation(newest, recovery_.taken_first_step);
  }
  change_.stage = Stage::kGathering;
  seat_survivors();
  std::vector<WorkerId> holders;
  for (WorkerId id : members_) {
    if (holds_state(id)) holders.push_back(id);
  }
  journal(record::HaltSettled{recovery_.fence, generation_, recovery_.resume_step, holders, members_});
  note_fruitless(progressed_ || recovery_.resume_step >= progress_step_);
  if (!recovering() || !recovery_.reasons.empty() || recovery_.suspicion.empty()) return;
  recovery_.reasons.push_back(recovery_.suspicion);
  tell(Tell::Level::kWarning, recovery_.suspicion + "; no worker is lost, and the run continues");
}

// From the answers of the workers that still run; another loss may have changed which of them hold the newest state.
void Membership::Impl::seat_survivors() {
  recovery_.resume_step = 0;
  bool anybody = false;
  const std::vector<WorkerId> living = living_members();
  for (WorkerId id : living) {
    const protocol::WorkerHalted& answer = *roster_.worker(id)->halted;
    if (!answer.has_state || !answer.in_loop) continue;
    anybody = true;
    recovery_.resume_step = std::max(recovery_.resume_step, answer.committed_step);
  }
  recovery_.gradients_are_left = std::any_of(living.begin(), living.end(), [&](WorkerId id) {
    const protocol::WorkerHalted& answer = *roster_.worker(id)->halted;
    return answer.has_state && answer.has_gradients && answer.in_loop && answer.committed_step == recovery_.resume_step;
  });
  std::vector<WorkerId> seated;
  std::vector<WorkerId> behind;
  for (WorkerId id : living) {
    Worker& worker = *roster_.worker(id);
    if (!worker.halted->in_loop) {
      worker.seated = false;
    } else if (anybody && holds_state(id)) {
      seated.push_back(id);
    } else {
      behind.push_back(id);
    }
  }
  seated.insert(seated.end(), behind.begin(), behind.end());
  set_members(std::move(seated));
}

bool Membership::Impl::all_live(const std::vector<WorkerId>& workers) const {
  return std::all_of(workers.begin(), workers.end(), [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker != nullptr && !worker->dying;
  });
}

bool Membership::Impl::holds_state(WorkerId id) const {
  const Worker* worker = roster_.worker(id);
  if (worker == nullptr || !worker->halted) return false;
  const protocol::WorkerHalted& answer = *worker->halted;
  if (!answer.has_state || !answer.in_loop || answer.committed_step != recovery_.resume_step) return false;
  return answer.has_gradients || !recovery_.gradients_are_left;
}

// No worker trains any more, as requested.
bool Membership::Impl::all_ended_in_order() const {
  if (end_.mode == EndMode::kDraining) return left_in_order_;
  return end_.mode == EndMode::kFinishing && losses_.empty();
}

void Membership::Impl::gather_recovery() {
  if (change_.retrying || end_.mode == EndMode::kNow) return;
  seat_survivors();
  if (members_.empty() && all_ended_in_order()) {
    change_ = Change{};
    end_recovery();
    dismiss_others();
    return;
  }
  if (members_.empty() || !holds_state(members_.front())) {
    lose_state();
  } else if (end_.mode == EndMode::kDraining) {
    prepare_stop();
  } else if (members_.size() >= settings_.min_workers || end_.mode == EndMode::kFinishing) {
    prepare_recovery(members_);
  } else {
    gather_joiners();
  }
}

// Too few workers are left: they wait, halted, until others are ready to join them.
void Membership::Impl::gather_joiners() {
  SwapInput input;
  for (WorkerId id : members_) input.members.push_back({id, roster_.worker(id)->place()});
  input.candidates = candidates();
  input.free = free_places();
  input.min = settings_.min_workers;
  input.want = std::max({wanted_size(), input.min, static_cast<std::uint32_t>(members_.size())});
  input.spares = settings_.spares;
  const SwapDecision decision = decide_swap(input);
  std::vector<WorkerId> next = carry_out(decision);
  std::erase_if(next, [&](WorkerId id) {
    const Worker& worker = *roster_.worker(id);
    return !is_member(id) && (!worker.ready || roster_.agent(worker.agent)->cut_off);
  });
  if (next.size() >= settings_.min_workers) {
    prepare_recovery(std::move(next));
    return;
  }
  if (min_timer_ != 0) return;
  min_timer_ = arm({TimerKind::kWaitForMin, {}, {}}, now_ + settings_.failures.wait_for_min);
  const std::string text = counted(members_.size(), "worker") + (members_.size() == 1 ? " is" : " are") +
                           " left and at least " + std::to_string(settings_.min_workers) +
                           " must train: waiting for others";
  journal(record::BelowMin{members_.size(), settings_.min_workers});
  tell(Tell::Level::kWarning, text);
}

void Membership::Impl::prepare_recovery(std::vector<WorkerId> members) {
  change_.members = std::move(members);
  change_.leavers.clear();
  change_.kind = protocol::ChangeKind::kRecover;
  change_.reason = "continue with " + counted(change_.members.size(), "worker") + ": " + recovery_cause();
  prepare();
}

// A generation without members: all workers leave where they are, and one holder of the state writes the checkpoint.
void Membership::Impl::prepare_stop() {
  change_.members.clear();
  change_.leavers = members_;
  change_.kind = protocol::ChangeKind::kStop;
  change_.reason = end_.reason;
  prepare();
}

std::string Membership::Impl::recovery_cause() const {
  if (recovery_.reasons.empty()) return recovery_.suspicion.empty() ? "a member is gone" : recovery_.suspicion;
  std::string text;
  for (const std::string& reason : recovery_.reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

void Membership::Impl::recovery_prepare_timed_out() {
  const std::set<WorkerId> late(change_.waiting.begin(), change_.waiting.end());
  cancel_change("no answer in time");
  leave_out(late, "did not build its communicator within " + std::to_string(settings_.prepare_timeout.count()) + " ms");
}

// Never all of them: when all workers report each other, those on the host of the lowest rank stay.
void Membership::Impl::leave_out(std::set<WorkerId> guilty, const std::string& why) {
  const auto innocent = std::find_if(members_.begin(), members_.end(),
                                     [&](WorkerId id) { return !guilty.contains(id) && holds_state(id); });
  if (innocent == members_.end() && !members_.empty()) {
    const std::string host = roster_.worker(members_.front())->host;
    const bool elsewhere = std::any_of(guilty.begin(), guilty.end(), [&](WorkerId id) {
      return roster_.worker(id) != nullptr && roster_.worker(id)->host != host;
    });
    std::erase_if(guilty, [&](WorkerId id) {
      const Worker* worker = roster_.worker(id);
      return worker == nullptr || (elsewhere ? worker->host == host : id == members_.front());
    });
  }
  for (WorkerId id : guilty) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || end_.mode == EndMode::kNow) continue;
    if (worker->seated) {
      end_hung(*worker, why);
    } else {
      expel_joiner(id, why);
    }
  }
  dirty_ = true;
}

void Membership::Impl::wait_for_min_expired() {
  min_timer_ = 0;
  const bool waits = restarting_ || (recovering() && change_.stage == Stage::kGathering);
  if (!waits || end_.mode != EndMode::kNone) return;
  const auto waited_s = std::chrono::duration_cast<std::chrono::seconds>(settings_.failures.wait_for_min).count();
  const std::string text = counted(members_.size(), "worker") + (members_.size() == 1 ? " is" : " are") +
                           " left, at least " + std::to_string(settings_.min_workers) +
                           " must train, and no worker joined within " + std::to_string(waited_s) + " s";
  tell(Tell::Level::kError, text);
  constexpr int kComeAgain = 75;
  constexpr int kUnavailable = 69;
  begin_end(EndMode::kDraining, settings_.has_checkpoints ? kComeAgain : kUnavailable, text);
}

// The next generation trains, or there is none.
void Membership::Impl::end_recovery() {
  cancel(recovery_.halt_timer);
  cancel(min_timer_);
  recovery_ = Recovery{};
}

}  // namespace elastictrain::core
