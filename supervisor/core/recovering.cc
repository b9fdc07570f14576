#include "supervisor/core/recovering.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/agents.h"
#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/losses.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/reconciling.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {

void want_recovery(Run& run, const std::string& why) {
  if (run.end.mode == EndMode::kNow) return;
  if (!why.empty()) run.recovery.reasons.push_back(why);
  if (!run.recovery.wanted) run.recovery.wanted = why;
  if (!run.recovery.active() || run.change.stage == Stage::kCommitted) run.hangs.hold();
  run.out.look_again();
}

// Members of a committed change are in the old generation or in the new one: both count until they have reported which.
static void merge_change(Run& run) {
  std::vector<WorkerId> order = run.training.members;
  if (run.change.stage == Stage::kCommitted) {
    order = run.change.members;
    for (WorkerId id : run.training.members) {
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
    run.recovery.taken = run.change.generation;
    run.recovery.taken_first_step = run.recovery.active() ? run.recovery.resume_step + 1 : run.change.first_step;
  }
  for (std::uint32_t rank = 0; rank < run.training.members.size(); ++rank)
    run.recovery.ranks.try_emplace(run.training.members[rank], rank);
  if (run.change.stage == Stage::kCommitted) {
    for (std::uint32_t rank = 0; rank < run.change.members.size(); ++rank)
      run.recovery.ranks[run.change.members[rank]] = rank;
  }
  run.recovery.order = std::move(order);
}

// The end of a communicator takes about as long as its build: both meet other ranks and the network.
static Millis halt_limit(const Run& run) {
  return std::max(run.settings.failures.halt_timeout, 2 * run.training.build_time);
}

static void arm_halt_timer(Run& run, Millis limit) {
  run.out.cancel(run.recovery.halt_timer);
  run.recovery.halt_timer = run.out.arm({TimerKind::kHalt, {}, {}}, run.out.now() + limit);
}

static void begin_recovery(Run& run, const std::string& why) {
  ET_CHECK(!run.end.over, "a run that has ended loses nothing");
  if (run.change.stage == Stage::kPreparing) cancel_change(run, why.empty() ? "a recovery begins" : why);
  run.out.cancel(run.change.timer);
  run.training.size_before_loss = std::max(run.training.size_before_loss, run.training.members.size());
  merge_change(run);
  run.change = Change{};
  run.change.stage = Stage::kHalting;
  run.change.kind = protocol::ChangeKind::kRecover;
  run.training.fence = run.recovery.fence = ++run.training.issued;
  ET_CHECK(run.training.fence > run.training.generation, "a fence is newer than what it ends");
  run.training.set_members(run.recovery.living(run.roster));
  run.recovery.waiting = {run.training.members.begin(), run.training.members.end()};
  run.recovery.state_until.reset();
  for (auto& [id, worker] : run.roster.workers()) {
    worker.halted.reset();
    worker.held.clear();
  }
  run.out.journal(
      record::Abort{run.recovery.fence, run.training.generation, run.recovery.cause(), run.training.members}, true);
  if (!run.training.members.empty())
    run.out.send(run.training.members, protocol::Abort{run.recovery.fence, run.recovery.cause()});
  arm_halt_timer(run, halt_limit(run));
  run.out.look_again();
}

void recover(Run& run) {
  const std::string why = *std::exchange(run.recovery.wanted, std::nullopt);
  if (!run.recovery.active() || run.change.stage == Stage::kCommitted) return begin_recovery(run, why);
  if (run.change.stage == Stage::kPreparing) cancel_change(run, why.empty() ? "a member left" : why);
  run.training.set_members(run.recovery.living(run.roster));
}

static void journal_halted(Run& run, const Worker& worker, const protocol::WorkerHalted& message) {
  record::Halted halted{
      worker.id, message.fence, message.generation, message.committed_step, message.has_state, message.in_loop, {}};
  if (!message.reason.empty()) halted.reason = message.reason;
  run.out.journal(std::move(halted));
}

// A collective failed, but no loss is known (yet).
static void halted_by_itself(Run& run, Worker& worker, const protocol::WorkerHalted& message) {
  if (message.generation <= run.training.fence) return;
  journal_halted(run, worker, message);
  forget_repaired_losses(run);
  run.recovery.suspicion = name_of(run, worker) + " could not continue: " + message.reason;
  doubt_others(run, worker.agent);
  if (!run.recovery.active() || run.change.stage == Stage::kCommitted) want_recovery(run, "");
}

static bool can_go_on_without_others(const Run& run) {
  const std::vector<WorkerId> living = run.recovery.living(run.roster);
  return std::any_of(living.begin(), living.end(), [&](WorkerId id) {
    const Worker& worker = *run.roster.worker(id);
    const bool holds = worker.halted && worker.halted->has_state && worker.halted->in_loop;
    return holds && !run.roster.agent(worker.agent)->cut_off;
  });
}

void on_message(Run& run, Worker& worker, const protocol::WorkerHalted& message) {
  if (message.disagrees) return on_disagreement(run, worker, message);
  const bool is_stray = !worker.assigned() && !worker.dying() && message.in_loop && message.generation != 0;
  if (is_stray) return end_stray(run, worker);
  if (!worker.trains()) return;
  if (message.fence == 0) {
    halted_by_itself(run, worker, message);
    return;
  }
  if (run.change.stage != Stage::kHalting || message.fence != run.recovery.fence) return;
  if (run.recovery.waiting.erase(worker.id) == 0) return;
  const bool state_is_missing = run.recovery.state_until && !can_go_on_without_others(run);
  worker.halted = message;
  journal_halted(run, worker, message);
  if (run.recovery.waiting.empty()) return run.out.look_again();
  if (state_is_missing && can_go_on_without_others(run)) arm_halt_timer(run, halt_limit(run));
}

void device_holds(Run& run, Worker& worker, const std::string& why) {
  if (run.change.stage != Stage::kHalting || !run.recovery.waiting.contains(worker.id)) return;
  worker.held = why;
  run.out.tell(Tell::Level::kWarning, name_of(run, worker) + " cannot halt yet: " + why);
}

// The state would be lost with them: all may be slow, where a network or a library is. False: that time is over, too.
static bool wait_for_state(Run& run) {
  if (!run.recovery.state_until) {
    const Millis limit = std::max(run.settings.failures.hang_max, halt_limit(run));
    run.recovery.state_until = run.out.now() + limit;
    run.out.tell(Tell::Level::kWarning, "no worker that holds the state has left its step within " +
                                            protocol::duration_text(halt_limit(run)) +
                                            ": none is ended before one has, for at most " +
                                            protocol::duration_text(limit) + " more (failures.hang_max_ms)");
  }
  const auto left = std::chrono::ceil<Millis>(*run.recovery.state_until - run.out.now());
  if (left.count() <= 0) return false;
  arm_halt_timer(run, std::min(left, halt_limit(run)));
  return true;
}

// Hosts of late workers that cannot be reached are lost.
static void lose_late_hosts(Run& run) {
  const std::set<WorkerId> late(run.recovery.waiting.begin(), run.recovery.waiting.end());
  for (WorkerId id : late) {
    const Worker* worker = run.roster.worker(id);
    if (worker == nullptr || run.end.mode == EndMode::kNow) continue;
    Agent& agent = *run.roster.agent(worker->agent);
    if (agent.cut_off) lose_agent(run, agent, agent.lost_reason);
  }
}

void halt_timed_out(Run& run) {
  run.recovery.halt_timer = 0;
  if (run.change.stage != Stage::kHalting) return;
  lose_late_hosts(run);
  const std::set<WorkerId> late(run.recovery.waiting.begin(), run.recovery.waiting.end());
  if (late.empty() || run.end.mode == EndMode::kNow) return;
  if (!can_go_on_without_others(run) && wait_for_state(run)) return;
  const auto& until = run.recovery.state_until;
  const bool waited = until && run.out.now() >= *until;
  const std::string limit = protocol::duration_text(waited ? run.settings.failures.hang_max : halt_limit(run));
  for (WorkerId id : late) {
    Worker* worker = run.roster.worker(id);
    if (worker == nullptr || run.end.mode == EndMode::kNow) continue;
    const std::string why = worker->held.empty() ? "" : " (" + worker->held + ")";
    end_hung(run, *worker, "did not leave its step within " + limit + why);
  }
}

// From the answers of the workers that still run; another loss may have changed which of them hold the newest state.
static void assign_survivors(Run& run) {
  run.recovery.resume_step = 0;
  bool anybody = false;
  const std::vector<WorkerId> living = run.recovery.living(run.roster);
  for (WorkerId id : living) {
    const protocol::WorkerHalted& answer = *run.roster.worker(id)->halted;
    if (!answer.has_state || !answer.in_loop) continue;
    anybody = true;
    run.recovery.resume_step = std::max(run.recovery.resume_step, answer.committed_step);
  }
  run.recovery.gradients_are_left = std::any_of(living.begin(), living.end(), [&](WorkerId id) {
    const protocol::WorkerHalted& answer = *run.roster.worker(id)->halted;
    return answer.has_state && answer.has_gradients && answer.in_loop &&
           answer.committed_step == run.recovery.resume_step;
  });
  std::vector<WorkerId> assigned;
  std::vector<WorkerId> behind;
  for (WorkerId id : living) {
    Worker& worker = *run.roster.worker(id);
    if (!worker.halted->in_loop) {
      worker.assignment = Assignment::kNone;
    } else if (anybody && run.recovery.holds_state(run.roster.worker(id))) {
      assigned.push_back(id);
    } else {
      behind.push_back(id);
    }
  }
  assigned.insert(assigned.end(), behind.begin(), behind.end());
  run.training.set_members(std::move(assigned));
}

// Every remaining worker has answered: which step counts, and which workers hold its state?
static void settle_halt(Run& run) {
  for (WorkerId id : run.recovery.living(run.roster)) {
    Worker& worker = *run.roster.worker(id);
    if (!worker.ready() && run.end.mode != EndMode::kNow) end_hung(run, worker, "did not report its address again");
  }
  if (run.recovery.wanted || run.end.wanted) return;  // one of them is not there any more
  run.out.cancel(run.recovery.halt_timer);
  Generation newest = run.training.generation;
  for (WorkerId id : run.recovery.living(run.roster))
    newest = std::max(newest, run.roster.worker(id)->halted->generation);
  if (newest > run.training.generation) {
    run.training.generation = newest;
    if (newest == run.recovery.taken) run.training.remember(newest, run.recovery.taken_first_step);
  }
  run.change.stage = Stage::kGathering;
  assign_survivors(run);
  std::vector<WorkerId> holders;
  for (WorkerId id : run.training.members) {
    if (run.recovery.holds_state(run.roster.worker(id))) holders.push_back(id);
  }
  run.out.journal(record::HaltSettled{run.recovery.fence, run.training.generation, run.recovery.resume_step, holders,
                                      run.training.members});
  if (!run.desired.lease.hold) note_recovery(run);
  if (run.end.wanted || !run.recovery.reasons.empty() || run.recovery.suspicion.empty()) return;
  run.recovery.reasons.push_back(run.recovery.suspicion);
  run.out.tell(Tell::Level::kWarning, run.recovery.suspicion + "; no worker is lost, and the run continues");
}

static bool nobody_holds_state(const Run& run) {
  return run.training.members.empty() || !run.recovery.holds_state(run.roster.worker(run.training.members.front()));
}

// Those who held the state have ended as requested. Who is left while the run drains had still to receive it.
static bool all_ended_in_order(const Run& run) {
  if (run.end.mode == EndMode::kDraining) return run.end.left_in_order;
  return run.end.mode == EndMode::kFinishing && run.losses.recent.empty() && run.training.members.empty();
}

static void end_in_order(Run& run) {
  if (!run.training.members.empty()) {
    run.training.set_members({});
    run.out.journal(record::HaltSettled{
        run.recovery.fence, run.training.generation, run.recovery.resume_step, {}, std::vector<WorkerId>{}});
  }
  end_without_members(run);
}

static void prepare_recovery(Run& run, std::vector<WorkerId> members) {
  run.change.members = std::move(members);
  run.change.leavers.clear();
  run.change.kind = protocol::ChangeKind::kRecover;
  run.change.reason = "continue with " + counted(run.change.members.size(), "worker") + ": " + run.recovery.cause();
  prepare_change(run);
}

static std::string count_left(const Run& run) {
  const std::size_t count = run.training.members.size();
  return counted(count, "worker") + (count == 1 ? " is" : " are") + " left";
}

static void begin_to_wait(Run& run) {
  run.startup.min_timer =
      run.out.arm({TimerKind::kWaitForMin, {}, {}}, run.out.now() + run.settings.failures.wait_for_min);
  const std::string text =
      count_left(run) + " and at least " + std::to_string(run.settings.min_workers) + " must train: waiting for others";
  run.out.journal(record::BelowMin{run.training.members.size(), run.settings.min_workers});
  run.out.tell(Tell::Level::kWarning, text);
}

static std::vector<WorkerId> fill_shortage(Run& run) {
  SwapInput input;
  for (WorkerId id : run.training.members) input.members.push_back({id, run.roster.worker(id)->place()});
  input.candidates = candidates(run);
  input.free = free_places(run);
  input.min = run.settings.min_workers;
  input.want = std::max({target_size(run), input.min, static_cast<std::uint32_t>(run.training.members.size())});
  input.spares = run.settings.spares;
  const SwapDecision decision = decide_swap(input);
  std::vector<WorkerId> next = carry_out(run, decision);
  std::erase_if(next, [&](WorkerId id) {
    const Worker& worker = *run.roster.worker(id);
    return !run.training.is_member(id) && (!worker.ready() || run.roster.agent(worker.agent)->cut_off);
  });
  if (next.size() >= run.settings.min_workers) return next;
  if (run.startup.min_timer == 0) begin_to_wait(run);
  return {};
}

// As the record says: nobody is asked for the state any more, by this supervisor or the next.
static void forget_generation(Run& run) {
  end_recovery(run);
  run.training.set_members({});
  run.change = Change{};
  run.training.generation = 0;
  run.training.restarting = true;
  run.desired.target_reason = "start again";
}

// The remaining members have no complete state: it must come from a checkpoint or be created again.
static void lose_state(Run& run) {
  const bool trained = run.training.generation != 0;
  Loss first;
  first.text = run.recovery.cause();
  if (!run.losses.recent.empty()) first = run.losses.recent.front();
  if (run.end.mode == EndMode::kFinishing) {
    end_without(run, first, "; the training had ended before");
    return;
  }
  run.out.journal(record::StateLost{run.recovery.fence, run.training.generation, run.settings.has_checkpoints,
                                    run.recovery.cause()},
                  true);
  if (run.end.begun()) {
    // The requested orderly end is not possible any more; a status that reports worse is kept.
    if (run.end.status == 0) {
      fail_run(run, first.status, first.text + first.detail);
    } else {
      end_without(run, run.losses.recent.empty() ? first : run.losses.recent.back(), "; the run was ending");
    }
    forget_generation(run);
    return;
  }
  if (is_bad_code(run)) {
    const std::string all =
        run.losses.recent.size() > 1 ? "\nEvery worker exited by itself: the program fails everywhere." : "";
    fail_run(run, first.status, first.text + first.detail + all);
    return;
  }
  forget_generation(run);
  run.desired.hold = false;
  run.desired.replacements.clear();
  // Workers that had an assignment began without a checkpoint; those that wait for a first assignment may still take
  // one if there is no checkpoint, unless their process holds the state of another worker.
  for (auto& [id, worker] : run.roster.workers()) {
    const bool began_without = worker.assigned() || worker.was_warm;
    if ((began_without || run.settings.has_checkpoints) && !worker.dying()) stop_worker(run, worker);
  }
  if (trained) {
    const char* from =
        run.settings.has_checkpoints ? "the newest checkpoint" : "the beginning, for there is no checkpoint";
    run.out.tell(Tell::Level::kWarning,
                 std::string("no worker is left that holds the state: starting again from ") + from);
  }
  run.out.look_again();
}

static void gather_recovery(Run& run) {
  if (run.change.retrying || run.end.mode == EndMode::kNow) return;
  assign_survivors(run);
  if (nobody_holds_state(run)) {
    if (all_ended_in_order(run)) return end_in_order(run);
    lose_state(run);
  } else if (run.end.mode == EndMode::kDraining) {
    prepare_stop(run);
  } else if (run.desired.lease.hold && !run.end.begun()) {
    return;  // halted, for as long as the cluster says
  } else if (run.training.members.size() >= run.settings.min_workers || run.end.mode == EndMode::kFinishing) {
    prepare_recovery(run, run.training.members);
  } else if (std::vector<WorkerId> members = fill_shortage(run); !members.empty()) {
    prepare_recovery(run, std::move(members));
  }
}

void advance_recovery(Run& run) {
  if (run.change.stage == Stage::kHalting && run.recovery.waiting.empty()) settle_halt(run);
  if (run.change.stage == Stage::kPreparing && !run.roster.all_live(run.change.members))
    cancel_change(run, "a new worker is gone");
  if (run.change.stage == Stage::kGathering) gather_recovery(run);
}

void shortage_expired(Run& run) {
  run.startup.min_timer = 0;
  const bool waits = run.training.restarting || (run.recovery.active() && run.change.stage == Stage::kGathering);
  if (!waits || run.end.begun()) return;
  const std::string text = count_left(run) + ", at least " + std::to_string(run.settings.min_workers) +
                           " must train, and no worker joined within " +
                           protocol::duration_text(run.settings.failures.wait_for_min);
  run.out.tell(Tell::Level::kError, text);
  want_end(run, EndMode::kDraining, run.settings.has_checkpoints ? kStatusComeAgain : kStatusUnavailable, text);
}

// Of the workers that are late those that cannot be reached, if there are any: the others may have waited for them.
static std::set<WorkerId> late_workers(const Run& run) {
  const std::set<WorkerId> late(run.change.waiting.begin(), run.change.waiting.end());
  std::set<WorkerId> away;
  for (WorkerId id : late) {
    const Worker* worker = run.roster.worker(id);
    if (worker != nullptr && is_out_of_sight(run, *worker)) away.insert(id);
  }
  return away.empty() ? late : away;
}

void recovery_prepare_timed_out(Run& run) {
  const std::set<WorkerId> late = late_workers(run);
  cancel_change(run, "no answer in time");
  leave_out(run, late, "did not build its communicator within " + protocol::duration_text(run.settings.prepare_timeout),
            FailureClass::kHang);
}

// Never all of them: when all workers report each other, those on the host of the lowest rank stay.
void leave_out(Run& run, std::set<WorkerId> guilty, const std::string& why, FailureClass as) {
  const auto innocent = std::find_if(run.training.members.begin(), run.training.members.end(), [&](WorkerId id) {
    return !guilty.contains(id) && run.recovery.holds_state(run.roster.worker(id));
  });
  if (innocent == run.training.members.end() && !run.training.members.empty()) {
    const std::string host = run.roster.worker(run.training.members.front())->host;
    const bool elsewhere = std::any_of(guilty.begin(), guilty.end(), [&](WorkerId id) {
      return run.roster.worker(id) != nullptr && run.roster.worker(id)->host != host;
    });
    std::erase_if(guilty, [&](WorkerId id) {
      const Worker* worker = run.roster.worker(id);
      return worker == nullptr || (elsewhere ? worker->host == host : id == run.training.members.front());
    });
  }
  for (WorkerId id : guilty) {
    Worker* worker = run.roster.worker(id);
    if (worker == nullptr || run.end.mode == EndMode::kNow) continue;
    if (worker->assigned()) {
      end_hung(run, *worker, why, as);
    } else {
      expel_joiner(run, id, why);
    }
  }
  run.out.look_again();
}

}  // namespace elastictrain::core
