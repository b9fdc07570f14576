// Purpose: the implementation of Membership: it owns the state of a run and the components that change it, and hands
// each event and each timer to the component that it concerns. The components own what only they need, and see of the
// rest what is passed to them here.
//
// How it works: events change the roster and the desired state (target size, drained hosts, replacements). The
// reconciler then compares the desired state with the actual one and with the change in flight, and takes the next step
// towards it. A loss interrupts this: until the generation after it trains, the recovery advances instead; the desired
// state is kept.
#pragma once

#include <functional>

#include "supervisor/core/agent_watch.h"
#include "supervisor/core/audit.h"
#include "supervisor/core/boundary.h"
#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/completion.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/exclusion.h"
#include "supervisor/core/exit_judge.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/gathering.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/hang_judge.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/host_judge.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/invariants.h"
#include "supervisor/core/joiners.h"
#include "supervisor/core/lease.h"
#include "supervisor/core/links.h"
#include "supervisor/core/membership.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/notices.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/plain_restart.h"
#include "supervisor/core/plan_maker.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/reconciler.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/requests.h"
#include "supervisor/core/restart.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/shortage.h"
#include "supervisor/core/snapshot.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/state_record.h"
#include "supervisor/core/takeover.h"
#include "supervisor/core/training.h"
#include "supervisor/core/warm.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

class Membership::Impl {
 public:
  Impl(RunSettings settings, std::function<Token()> make_token);
  // The components refer to one another.
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Actions step(const Event& event, Instant now);
  RunView view() const {
    RunView view = snapshot_.view();
    view.new_members = newcomers_.without_a_step();
    if (roster_.blamed_slots() > 0) view.start_failure = workers_.newest_failure();
    return view;
  }
  Journal state_record() const { return state_record_.make(out_.now()); }
  bool ended() const { return end_.over; }

 private:
  void dispatch(const Event& event);
  void on(const HostsOffered& event) { hosts_.on(event); }
  void on(const LeaseGiven& event) { lease_.on(event); }
  void on(const HostNoticed& event) { hosts_.on(event); }
  void on(const AgentConnected& event) {
    agents_.on(event);
    warm_.on({event.agent, event.warm});
  }
  void on(const WarmReported& event) { warm_.on(event); }
  void on(const AgentLost& event) { agents_.on(event); }
  void on(const AgentReported& event) { agents_.on(event); }
  void on(const WorkerExited& event) { exits_.on(event); }
  void on(const WorkerSpawnFailed& event) { joiners_.on(event); }
  void on(const AgentAnswered& event) { hang_judge_.on(event); }
  void on(const Resumed& event) { takeover_.on(event); }
  void on(const Resize& event) { requests_.on(event); }
  void on(const ReplaceWorker& event) { requests_.on(event); }
  void on(const ReplaceHost& event) { requests_.on(event); }
  void on(const DrainHost& event) { requests_.on(event); }
  void on(const UndrainHost& event) { requests_.on(event); }
  void on(const UpdatePlan& event) { requests_.on(event); }
  void on(const Stop& event) { requests_.on(event); }
  void on(const StopNow& event) { requests_.on(event); }
  void on(const WorkerMessage& event);
  void on(const TimerFired& event);
  void on_message(Worker& worker, const protocol::WorkerHello& message) { joiners_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerReady& message) { joiners_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerAsksEpoch& message) { joiners_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerPrepared& message) { runner_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerPrepareFailed& message) { runner_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerActive& message) { boundary_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerLeft& message) { boundary_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerFinished& message) { boundary_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerHalted& message) {
    if (message.disagrees) return newcomers_.on_disagreement(worker, message);
    halt_.on_message(worker, message);
  }
  void on_message(Worker& worker, const protocol::WorkerDeclines& message) { newcomers_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerNote& message) { notices_.on_message(worker, message); }
  void on_message(Worker& worker, const protocol::WorkerRequest& message) { requests_.on_message(worker, message); }
  void on_message(Worker&, const protocol::WorkerAudit&) {}  // handled before, whether the worker is known or not
  void on_message(Worker&, const protocol::WorkerSwap&) {}   // a figure for display, kept by the edge
  void on_message(Worker&, const protocol::BoardPut&) {}     // the board is the edge's
  void on_message(Worker&, const protocol::BoardGet&) {}
  void timer_fired(const TimerUse& use);
  void worker_timer_fired(TimerKind kind, Worker& worker);
  void advance();
  Phase phase() const;
  std::optional<std::string> find_broken(const Event& event, Phase before, bool whole);
  Actions end_process(const Event& event, const std::string& rule);

  // --- The state
  RunSettings settings_;
  Roster roster_;
  Outbox out_;
  Startup startup_;
  TakeoverState resume_;
  Training training_;
  Change change_;
  Recovery recovery_;
  DesiredState desired_;
  RunEnd end_;
  HangDetector hangs_;
  HostHealth health_;
  Invariants invariants_;
  bool broken_ = false;  // one of them; the state is wrong, and no step follows

  // --- The components that change it
  Audit audit_;
  WorkerControl workers_;
  Joiners joiners_;
  Boundary boundary_;
  PlainRestart plain_;
  ExitJudge exits_;
  FailureJudge judge_;
  HostJudge host_judge_;
  HangJudge hang_judge_;
  NewcomerJudge newcomers_;
  HostList hosts_;
  AgentWatch agents_;
  Warm warm_;
  Links links_;
  Notices notices_;
  Requests requests_;
  Lease lease_;
  Planner planner_;
  Reconciler reconciler_;
  PlanMaker plans_;
  ChangeRunner runner_;
  Completion completion_;
  Halt halt_;
  Exclusion exclusion_;
  Shortage shortage_;
  Gathering gathering_;
  Restart restart_;
  Ending ending_;
  Takeover takeover_;
  Snapshot snapshot_;
  StateRecord state_record_;
};

}  // namespace elastictrain::core
