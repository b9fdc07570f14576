// The part of the state machine that carries a change out: prepare, commit, complete, or cancel and try again.
#include <algorithm>
#include <set>
#include <utility>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kSwapRetries = 3;
constexpr Millis kFirstSwapRetryDelay{500};  // doubles with each

}  // namespace

std::vector<WorkerId> Membership::Impl::addressees() const {
  std::set<WorkerId> ids(change_.members.begin(), change_.members.end());
  ids.insert(members_.begin(), members_.end());
  std::vector<WorkerId> list;
  for (WorkerId id : ids) {
    const Worker* worker = roster_.worker(id);
    if (worker != nullptr && !worker->finished && !worker->stop_sent) list.push_back(id);
  }
  return list;
}

// In a recovery a member that lacks the newest state is one of the workers that receive it.
bool Membership::Impl::joins(WorkerId id) const {
  return !is_member(id) || (recovering() && !holds_state(id));
}

std::vector<double> Membership::Impl::speeds_of(const std::vector<PlanMember>& members) const {
  std::vector<double> speeds;
  if (speeds_.empty()) return speeds;
  for (const PlanMember& member : members) {
    const auto known = speeds_.find(member.worker);
    speeds.push_back(known == speeds_.end() ? 1.0 : known->second);
  }
  return speeds;
}

protocol::GenerationPlan Membership::Impl::plan_change() const {
  std::vector<PlanMember> members;
  for (WorkerId id : change_.members) {
    const Worker& worker = *roster_.worker(id);
    members.push_back({id, worker.host, worker.facts.endpoint, !joins(id)});
  }
  protocol::GenerationPlan plan = make_plan(settings_, change_.generation, generation_, members, speeds_of(members));
  plan.kind = change_.kind;
  plan.reason = change_.reason;
  plan.token = make_token_();
  plan.lineage = lineage_;
  if (!recovering()) return plan;
  // The open step began this way; a different desired state follows as a separate change.
  if (generation_ != 0) plan.synchronization = synchronization_;
  plan.fence = recovery_.fence;
  plan.resume_step = recovery_.resume_step;
  for (WorkerId id : members_) {
    if (members.empty() && holds_state(id)) plan.donors.push_back(id);
  }
  return plan;
}

record::Prepare Membership::Impl::record_of(const protocol::GenerationPlan& plan) const {
  record::Prepare about{.generation = plan.generation,
                        .previous = plan.previous,
                        .kind = plan.kind,
                        .reason = plan.reason,
                        .members = change_.members,
                        .leavers = change_.leavers,
                        .shares = shares_of(plan),
                        .donors = plan.donors,
                        .learning_rate_factor = plan.learning_rate_factor};
  const std::string topology = protocol::text_of(plan.topology, plan.fathers);
  if (topology != protocol::name_of(protocol::Topology::kAuto)) about.topology = topology;
  if (plan.synchronization != protocol::Synchronization::kGradients) about.synchronization = plan.synchronization;
  if (!recovering()) return about;
  about.fence = plan.fence;
  about.resume_step = plan.resume_step;
  return about;
}

void Membership::Impl::prepare() {
  change_.generation = ++issued_;
  protocol::GenerationPlan plan = plan_change();
  reshare_.clear();
  journal(record_of(plan));
  const std::vector<WorkerId> to = addressees();
  change_.stage = Stage::kPreparing;
  change_.waiting = {to.begin(), to.end()};
  change_.failed.clear();
  change_.any_active = false;
  change_.timer = arm({TimerKind::kPrepare, {}, {}}, now_ + settings_.prepare_timeout);
  plan_ = plan;
  send(to, protocol::Prepare{std::move(plan)});
}

void Membership::Impl::commit() {
  cancel(change_.timer);
  const std::vector<WorkerId> to = addressees();
  journal(record::Commit{change_.generation, change_.members.size(), change_.reason}, true);
  send(to, protocol::Commit{change_.generation});
  if (recovering()) report_audit({}, ledger_.fence({change_.generation, recovery_.resume_step + 1}));
  for (WorkerId id : change_.members) roster_.worker(id)->seated = true;
  change_.stage = Stage::kCommitted;
  change_.waiting = {to.begin(), to.end()};
  if (recovering() || generation_ == 0) watch_for_hangs(change_.generation, change_.members);
  for (WorkerId id : change_.members) hangs_.watch(id);
  dirty_ = true;
}

// Every member trains in the new generation and every leaver has left.
void Membership::Impl::complete() {
  const std::size_t size_before = members_.size();
  const bool recovered = recovering();
  if (recovered) {
    change_.first_step = recovery_.resume_step + 1;
    hold_ = false;
    end_recovery();
  }
  set_members(change_.members);
  generation_ = change_.generation;
  watch_for_hangs(generation_, members_);
  judge_success();
  if (members_.size() >= size_before_loss_ || !recovered) size_before_loss_ = 0;
  if (!members_.empty()) begin_generation();
  learning_rate_factor_ = plan_.learning_rate_factor;
  synchronization_ = plan_.synchronization;
  topology_ = plan_.topology;
  fathers_ = plan_.fathers;
  if (synchronization_ != settings_.synchronization && !members_.empty() && reshare_.empty()) {
    reshare_ = "train by " + std::string(protocol::name_of(settings_.synchronization)) + ", as requested before";
    dirty_ = true;
  }
  size_reason_ = members_.size() == size_before && !recovered && !size_reason_.empty() ? size_reason_ : change_.reason;
  last_change_ = "generation " + std::to_string(generation_) + ": " + change_.reason;
  for (WorkerId id : members_) {
    if (const Worker* worker = roster_.worker(id)) roster_.clear_blame(worker->place());
  }
  std::erase_if(to_replace_, [&](const auto& wish) { return !is_member(wish.first); });
  journal(record::GenerationComplete{generation_, change_.kind, change_.first_step, members_.size(), members_});
  if (!members_.empty()) tell(Tell::Level::kInfo, last_change_);
  change_ = Change{};
  // Joiners of a recovery that another one followed wait for a first seat again.
  if (end_.mode == EndMode::kFinishing || end_.mode == EndMode::kDraining) dismiss_others();
  dirty_ = true;
}

void Membership::Impl::begin_generation() {
  for (const protocol::Member& member : plan_.members) {
    if (Worker* worker = roster_.worker(member.worker)) worker->share = member.share;
  }
  remember_generation(generation_, change_.first_step);
  if (!std::exchange(restarting_, false)) return;
  progress_generation_ = generation_;
  progress_step_ = change_.first_step;
  cancel(min_timer_);
}

void Membership::Impl::set_members(std::vector<WorkerId> members) {
  members_ = std::move(members);
  member_set_ = {members_.begin(), members_.end()};
}

void Membership::Impl::cancel_change(const std::string& why) {
  if (change_.stage == Stage::kPreparing) {
    journal(record::Cancel{change_.generation, why});
    send(addressees(), protocol::Cancel{change_.generation});
  }
  cancel(change_.timer);
  change_.stage = Stage::kGathering;
  change_.waiting.clear();
  dirty_ = true;
}

void Membership::Impl::prepare_failed(const std::string& why) {
  cancel_change(why);
  if (++change_.attempts <= kSwapRetries) {
    const Millis delay = kFirstSwapRetryDelay * (1 << (change_.attempts - 1));
    tell(Tell::Level::kWarning, why + "; trying again in " + std::to_string(delay.count()) + " ms");
    change_.retrying = true;
    change_.timer = arm({TimerKind::kRetry, {}, {}}, now_ + delay);
    return;
  }
  change_.attempts = 0;
  // Another round is not worth it for a worker that cannot build although every worker it needs still runs.
  const std::string what = "could not build the communicator: " + why;
  if (recovering()) return leave_out(change_.failed, what);
  std::vector<WorkerId> guilty_joiners;
  for (WorkerId id : change_.failed) {
    if (!is_member(id) && roster_.worker(id) != nullptr) guilty_joiners.push_back(id);
  }
  for (WorkerId id : guilty_joiners) expel_joiner(id, what);
  if (guilty_joiners.empty()) give_up_change(why);
}

void Membership::Impl::give_up_change(const std::string& why) {
  const std::string text = "the change to " + counted(change_.members.size(), "worker") + " is given up (" + why + ")";
  journal(record::GivenUp{why});
  if (end_.mode != EndMode::kNone || generation_ == 0) {
    tell(Tell::Level::kError, text);
    begin_end(EndMode::kNow, generation_ == 0 ? 69 : end_.status, end_.reason.empty() ? why : end_.reason);
    return;
  }
  tell(Tell::Level::kError, text + "; the run stays at " + counted(members_.size(), "worker"));
  hold_ = true;
  target_ = static_cast<std::uint32_t>(members_.size());
  target_reason_ = "the last change was given up";
  to_replace_.clear();
}

// Joiners that did not answer are left out; if only members did not answer, no worker can be left out.
void Membership::Impl::prepare_timed_out() {
  change_.timer = 0;
  if (recovering()) return recovery_prepare_timed_out();
  std::vector<WorkerId> late_joiners;
  std::string late_members;
  for (WorkerId id : addressees()) {
    if (!change_.waiting.contains(id)) continue;
    if (!is_member(id)) {
      late_joiners.push_back(id);
    } else {
      late_members += (late_members.empty() ? "" : ", ") + name_of(*roster_.worker(id));
    }
  }
  for (WorkerId id : late_joiners) expel_joiner(id, "did not build its communicator in time");
  if (late_joiners.empty()) prepare_failed("no answer in time from " + late_members);
}

}  // namespace elastictrain::core
