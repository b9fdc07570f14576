// Purpose: the implementation of Membership. One class, its parts in files by topic:
//   membership.cc           step(): dispatch, timers, invariants
//   membership_hosts.cc     hosts and agents: offered, connected, lost, released
//   membership_links.cc     broken connections, and hosts that are tried again
//   membership_workers.cc   workers: started, their messages, dismissed
//   membership_failures.cc  exits, hangs and losses: whose fault, and whether the run tolerates it
//   membership_recovery.cc  from a loss to the generation that follows it
//   membership_restart.cc   when no worker is left that holds the state
//   membership_resume.cc    taking over from a supervisor that is gone
//   membership_wish.cc      from the desired state to the next membership: reconcile and the decisions it uses
//   membership_swap.cc      from the next membership to the next generation: prepare, commit, complete, cancel
//   membership_requests.cc  requests of users, and the answers
//   membership_ending.cc    finish, drain, stop now, failure
//   membership_view.cc      the snapshot
//   membership_record.cc    the whole state as one record of the journal
//
// How it works: events change the roster and the desired state (target size, drained hosts, replacements). reconcile()
// then compares the desired state with the actual one and with the change in flight, and takes the next step towards
// it. No queue of requests is needed: a newer desired state supersedes an older one. A loss interrupts this: until the
// generation after it trains, advance_recovery() runs instead of reconcile(); the desired state is kept.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "supervisor/core/failure_budget.h"
#include "supervisor/core/failure_detector.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/invariants.h"
#include "supervisor/core/ledger.h"
#include "supervisor/core/membership.h"
#include "supervisor/core/records.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/core/timer_book.h"

namespace elastictrain::core {

class Membership::Impl {
 public:
  Impl(RunSettings settings, std::function<Token()> make_token);

  Actions step(const Event& event, Instant now);
  RunView view() const;
  Journal state_record() const;
  bool ended() const { return ended_; }

 private:
  enum class Stage : std::uint8_t { kIdle, kHalting, kGathering, kPreparing, kCommitted };
  enum class EndMode : std::uint8_t { kNone, kFinishing, kDraining, kNow };
  enum class Retry : std::uint8_t { kOnce, kNever };

  // The change in flight. kHalting: Abort was sent. kGathering: joiners are starting. kPreparing: Prepare was sent.
  // kCommitted: the swap is in progress.
  struct Change {
    Stage stage = Stage::kIdle;
    Generation generation = 0;
    protocol::ChangeKind kind = protocol::ChangeKind::kStart;
    std::string reason;
    std::vector<WorkerId> members;
    std::vector<WorkerId> leavers;
    std::unordered_set<WorkerId> waiting;  // workers whose answer (kPreparing) or swap (kCommitted) is outstanding
    std::size_t not_ready = 0;
    bool any_active = false;  // a worker passed the boundary
    Step first_step = 0;      // of the new generation, once a worker reported it
    std::uint64_t timer = 0;  // kPrepare or kRetry
    bool retrying = false;    // waits for kRetry
    std::uint32_t attempts = 0;
    std::set<WorkerId> failed;  // in the last attempt
  };

  // From a loss to the generation that follows it; change_ is that generation's. members_ are the remaining workers: by
  // old ranks first; once they have answered, holders of the state come before the others.
  struct Recovery {
    Generation fence = 0;              // 0: none
    std::vector<std::string> reasons;  // what was lost
    std::string suspicion;             // the reason given by a member whose collective failed
    std::vector<WorkerId> order;       // all workers concerned, by old ranks
    std::map<WorkerId, std::uint32_t> ranks;
    std::unordered_set<WorkerId> waiting;  // workers whose answer to the Abort is outstanding
    std::uint64_t halt_timer = 0;
    Step resume_step = 0;             // the step that counts, once all have answered
    bool gradients_are_left = false;  // a worker still holds those of the step after it
    bool progress = false;            // a step was committed since the previous recovery
    // A change that was committed and that some workers may have adopted.
    Generation taken = 0;
    Step taken_first_step = 0;
  };

  // The workers that take part in the change in flight, for a look at all workers.
  struct InChange {
    std::unordered_set<WorkerId> planned;
    std::unordered_set<WorkerId> leaving;  // at its boundary
  };

  struct End {
    EndMode mode = EndMode::kNone;
    int status = 0;
    std::string reason;
  };

  // Hosts and agents.
  void on(const HostsOffered& event);
  void on(const AgentConnected& event);
  void on(const AgentLost& event);
  void on(const AgentReported& event);
  void on(const HostNoticed& event);
  void on(const AgentAnswered& event);
  void stacks_known(const AgentAnswered& event);
  void collectives_known(const AgentAnswered& event);
  void on(const Resumed& event);
  void offer_host(const HostSlots& offered, std::uint32_t order, Agent* known);
  void launch(const HostSlots& offered, std::uint32_t order);
  void withdraw_host(Agent& agent);
  void look_at(AgentId id);
  void heard(Agent& agent);
  void lose_agent(Agent& agent, const std::string& reason);
  void lose_workers(Agent& agent, const std::string& reason);
  void cut_off(Agent& agent, const std::string& reason);
  void come_back(Agent& agent, const std::vector<WorkerId>& living);
  void resend(Worker& worker);
  void vanished(const Worker& gone);
  void doubt_cut_off_agents(AgentId witness);
  void reconnect_timed_out(AgentId id);
  void schedule_relaunch(Agent& agent);
  void relaunch(AgentId id);
  void stop_agent(Agent& agent);
  void release_agents();
  std::string unreachable_hosts() const;

  // Workers.
  void on(const WorkerSpawnFailed& event);
  void on(const WorkerExited& event);
  void on(const WorkerSaid& event);
  void said(Worker& worker, const protocol::WorkerHello& message);
  void said(Worker& worker, const protocol::WorkerReady& message);
  void said(Worker& worker, const protocol::WorkerPrepared& message);
  void said(Worker& worker, const protocol::WorkerPrepareFailed& message);
  void said(Worker& worker, const protocol::WorkerActive& message);
  void said(Worker& worker, const protocol::WorkerLeft& message);
  void said(Worker& worker, const protocol::WorkerFinished& message);
  void said(Worker&, const protocol::WorkerHeartbeat&) {}  // the agent folds heartbeats into its report
  void said(Worker&, const protocol::WorkerAudit&) {}  // accepted earlier, whether the worker is known or not
  void said(Worker& worker, const protocol::WorkerNote& message);
  void got_term(Worker& worker);
  enum class NoticeAnswer : std::uint8_t { kOneOfAll, kReplace, kDismiss };
  void expect_notices();
  void answer_notices();
  bool all_noticed() const;  // within a short time of each other
  NoticeAnswer answer_to(const Worker& worker, bool all) const;
  void act_on(NoticeAnswer answer, Worker& worker);
  static std::string text_of(NoticeAnswer answer);
  void said(Worker& worker, const protocol::WorkerHalted& message);
  void said(Worker& worker, const protocol::WorkerRequest& message);
  void refuse_program(const std::string& why);
  void said(Worker&, const protocol::WorkerSwap&) {}    // a figure for display, kept by the edge
  void said(Worker&, const protocol::WorkerParked&) {}  // concerns its agent only
  std::optional<std::string> mismatch(const protocol::WorkerReady& message) const;
  void drop_joiner(const Worker& worker, const std::string& why, Retry retry);  // its process is already gone
  void expel_joiner(WorkerId id, const std::string& why);                       // and do not try again in its slot
  void end_stray(Worker& worker);
  void dismiss(Worker& worker, const std::string& reason);
  void stop_worker(Worker& worker);
  void bury(WorkerId id);
  void expect_ready(Worker& worker);
  void expect_exit(Worker& worker);
  void start_workers(const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh);
  std::string name_of(const Worker& worker) const;

  // Failures.
  void judge_exit(const Worker& worker, const WorkerExited& event);
  void judge_unfinished_exit(const Worker& worker, const WorkerExited& event);
  void lose_member(Loss loss);
  void forget_repaired_losses();
  void charge(const Loss& loss);
  void blame_host(const Loss& loss);
  void judge_success();
  void end_without(const Loss& loss, const char* why);
  bool nobody_else_trains() const;
  void act_on(const HangFinding& finding);
  void journal_hang(const Worker& worker, const HangFinding& finding);
  bool is_waited_for(WorkerId id) const;
  void unstick(const HangFinding& finding);
  void ask_about_collectives(WorkerId doubtful);
  std::vector<WorkerId> most_doubtful() const;
  void end_hung(Worker& worker, const std::string& what, FailureClass as = FailureClass::kHang);
  void end_for_good(Worker& worker);
  void watch_for_hangs(Generation generation, const std::vector<WorkerId>& members);

  // Recovery.
  bool recovering() const { return recovery_.fence != 0; }
  void recover(const std::string& why);
  void begin_recovery(const std::string& why);
  void fold_change();
  void advance_recovery();
  void halted_by_itself(Worker& worker, const protocol::WorkerHalted& message);
  void journal_halted(const Worker& worker, const protocol::WorkerHalted& message);
  void halt_timed_out();
  void settle_halt();
  void seat_survivors();
  bool all_ended_in_order() const;
  void gather_recovery();
  void gather_joiners();
  void prepare_recovery(std::vector<WorkerId> members);
  void prepare_stop();
  void recovery_prepare_timed_out();
  void leave_out(std::set<WorkerId> guilty, const std::string& why);
  void wait_for_min_expired();
  void end_recovery();
  std::vector<WorkerId> living_members() const;
  bool holds_state(WorkerId id) const;
  bool all_live(const std::vector<WorkerId>& workers) const;
  std::string recovery_cause() const;
  void set_members(std::vector<WorkerId> members);

  // A run that is taken over.
  void restore_roster(const Resumed& event);
  void restore_generation(const Resumed& event);
  void finish_resume();

  // Restart.
  void lose_state();
  bool is_bad_code() const;
  void note_progress(const protocol::WorkerHeartbeat& heartbeat);
  void note_fruitless(bool progress);
  bool remember_generation(Generation generation, Step first_step);  // false: it is known, or no worker began it

  // The change.
  void reconcile();
  bool may_start();
  std::uint32_t wanted_size() const;
  std::uint32_t size_limit() const;
  SwapInput swap_input() const;
  CurrentMember current_member(WorkerId id) const;
  std::vector<Candidate> candidates() const;
  std::vector<Place> free_places() const;
  std::set<std::string> avoided_hosts() const;  // hosts that workers are to move away from
  bool displaced(const Worker& worker) const;
  bool settling() const;
  bool all_reachable(const std::vector<WorkerId>& next) const;
  bool yields_slot(const Worker& worker) const;
  void dismiss_misplaced(const std::vector<Candidate>& candidates);
  bool same_plan(const SwapDecision& decision) const;
  std::vector<WorkerId> carry_out(const SwapDecision& decision);
  std::string unmet_text(const SwapDecision& decision, std::uint32_t want) const;
  void describe(const SwapDecision& decision, std::size_t next_size);
  void tell_unmet(const SwapDecision& decision, std::uint32_t want);
  void give_up_replacements(const SwapDecision& decision);
  void prepare();
  record::Prepare record_of(const protocol::GenerationPlan& plan) const;
  protocol::GenerationPlan plan_change() const;
  std::vector<double> speeds_of(const std::vector<PlanMember>& members) const;
  bool joins(WorkerId id) const;
  void commit();
  void complete();
  void begin_generation();
  void cancel_change(const std::string& why);
  void prepare_failed(const std::string& why);
  void give_up_change(const std::string& why);
  void prepare_timed_out();
  std::vector<WorkerId> addressees() const;
  bool in_flight(WorkerId id) const;  // a member or leaver of the change after its commit
  bool is_member(WorkerId id) const;
  const std::vector<WorkerId>& newest_members() const;

  // Requests.
  void on(const Resize& event);
  void on(const ReplaceWorker& event);
  void on(const ReplaceHost& event);
  void on(const DrainHost& event);
  void on(const Reshare& event);
  void apply(const Reshare& event);
  bool is_for_later(const Reshare& event) const;
  void on(const Stop& event);
  void on(const StopNow& event);
  void new_wish();
  void accept(std::uint64_t request, const std::string& text);
  void refuse(std::uint64_t request, const std::string& text);
  std::string resize_text(std::uint32_t target) const;
  std::string refusal(RunPhase phase) const;

  // The end.
  void begin_end(EndMode mode, int status, std::string reason);
  void advance_end();
  void drain_members();
  void stop_everybody();
  void dismiss_others();
  void fail_run(int status, const std::string& reason);
  void member_finished();
  bool awaits_accounts();
  void end_run();
  void journal_audit();
  void report_audit(WorkerId worker, const std::vector<std::string>& violations);

  // Plumbing.
  void on(const TimerFired& event);
  void fired(const TimerUse& use);
  std::uint64_t arm(TimerUse use, Instant when);
  void cancel(std::uint64_t& timer);
  template <class R>
  void journal(R about, bool sync = false) {
    emit(Journal{Record(std::in_place_type<R>, std::move(about)), sync});
  }
  void send(std::vector<WorkerId> workers, protocol::WorkerDown message);
  void tell(Tell::Level level, std::string text);
  void check(const Event& event, RunPhase before, bool whole);
  RunPhase phase() const;
  RunPhase shown_phase() const;
  InChange in_change() const;
  WorkerPhase phase_of(const Worker& worker, const InChange& in) const;
  WorkerView view_of(const Worker& worker, const InChange& in) const;
  AgentView view_of(const Agent& agent) const;
  void show_failures(RunView& view) const;
  void record_members(record::RunState& state) const;
  void record_hosts(record::RunState& state) const;
  void record_workers(record::RunState& state) const;
  void record_change(record::RunState& state) const;
  static std::vector<std::uint32_t> shares_of(const protocol::GenerationPlan& plan);
  // The same fields of both records.
  template <class R>
  void record_plan_update(R& about) const {
    about.per_worker = reshared_.per_worker;
    about.target_factor = reshared_.learning_rate_factor;
    about.target_noise_scale = reshared_.noise_scale;
    about.target_parents = reshared_.fathers;
    about.target_topology = reshared_.topology;
    about.target_synchronization = reshared_.synchronization;
  }

  template <class T>
  void emit(T action) {
    out_.emplace_back(std::move(action));
  }

  RunSettings settings_;
  std::function<Token()> make_token_;
  Roster roster_;
  TimerBook timers_;
  FailureDetector detector_;
  HangDetector hangs_;
  std::optional<Instant> collectives_asked_;
  FailureBudget budget_;
  HostHealth health_;
  Ledger ledger_;
  Invariants invariants_;

  Instant now_;
  Actions out_;
  bool dirty_ = false;  // a change that reconcile() must look at
  bool ended_ = false;

  // The desired state.
  std::uint32_t target_;
  std::string target_reason_ = "the size to start with";
  std::map<WorkerId, double> speeds_;  // shares follow in proportion; empty: equal ones
  Reshare reshared_;                   // requested since the start; without speeds
  std::string reshare_;                // why shares change although no worker comes or goes; empty: they do not change
  std::map<WorkerId, protocol::ChangeKind> to_replace_;  // kReplace, or kMigrate: away from its host
  bool hold_ = false;  // the last change was given up: nothing moves until the desired state changes

  // The start.
  bool hosts_known_ = false;
  bool start_expired_ = false;
  bool spawned_ = false;
  Instant spawned_at_;
  bool elastic_ = false;          // a worker sent hello: the program uses the library
  std::uint32_t first_size_ = 0;  // workers started at first
  std::uint32_t plain_finished_ = 0;
  std::uint64_t start_timer_ = 0;
  std::uint64_t notice_timer_ = 0;

  // The generation that trains.
  Generation generation_ = 0;
  Generation issued_ = 0;
  std::vector<WorkerId> members_;
  std::set<WorkerId> member_set_;
  double learning_rate_factor_ = 1.0;
  protocol::Topology topology_ = protocol::Topology::kAuto;
  std::vector<std::uint32_t> fathers_;
  protocol::Synchronization synchronization_ = protocol::Synchronization::kGradients;  // of the generation
  std::string size_reason_;
  std::string last_change_;
  protocol::GenerationPlan plan_;  // of the change

  Change change_;
  End end_;
  Recovery recovery_;
  std::set<WorkerId> finished_;           // members whose program reached its end, even if the process has exited
  std::set<AgentId> silent_;              // given up although their connections are open
  std::uint64_t accounts_timer_ = 0;      // kEnd, while the sample accounts of the silent agents are awaited
  bool left_in_order_ = false;            // while the run drains: a worker reached its boundary
  Generation fence_ = 0;                  // the newest one
  std::uint64_t min_timer_ = 0;           // kWaitForMin
  std::vector<protocol::Fence> lineage_;  // generations that began, oldest first
  std::vector<Loss> losses_;              // since the last committed step
  std::size_t size_before_loss_ = 0;      // until the next planned change
  bool restarting_ = false;               // all state was lost; generation_ is 0 again
  bool progressed_ = true;                // a step was committed since the last recovery
  Generation progress_generation_ = 0;    // ... which is known from heartbeats of this generation
  Step progress_step_ = 0;                // ... of this step or a later one
  bool resuming_ = false;                 // taken over, and not all agents are back
  bool unsettled_ = false;                // ... in the middle of a change
  std::optional<protocol::WorkerReady> reference_;  // the state layout that every worker must have
  std::string unmet_told_;
};

}  // namespace elastictrain::core
