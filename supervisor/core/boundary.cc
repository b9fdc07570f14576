#include "supervisor/core/boundary.h"

#include "supervisor/core/audit.h"
#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/completion.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

Boundary::Boundary(Roster& roster, Outbox& out, Training& training, Change& change, Recovery& recovery, RunEnd& end,
                   TakeoverState& resume, HangDetector& hangs, Audit& audit, WorkerControl& workers,
                   ChangeRunner& runner, Completion& completion, Halt& halt, Ending& ending, NewcomerJudge& newcomers)
    : roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      end_(end),
      resume_(resume),
      hangs_(hangs),
      audit_(audit),
      workers_(workers),
      runner_(runner),
      completion_(completion),
      halt_(halt),
      ending_(ending),
      newcomers_(newcomers) {}

void Boundary::on_message(Worker& worker, const protocol::WorkerActive& message) {
  if (message.generation > training_.issued) return;
  newcomers_.active(worker.id, message.first_step);
  const bool of_change = change_.stage == Stage::kCommitted && message.generation == change_.generation;
  const bool first = training_.remember(message.generation, message.first_step);
  // What generations before this one used from here on is void; a planned change from one to the next leaves nothing
  // void.
  if (first && (training_.restarting || !of_change)) {
    audit_.fence({message.generation, message.first_step});
  }
  const bool awaited = of_change && change_.waiting.erase(worker.id) > 0;
  if (!worker.seated() && !worker.finished() && !worker.dying()) end_stray(worker);
  if (!first && !awaited) return;
  out_.journal(record::Active{worker.id, message.generation, message.first_step, message.state_transfer_bytes});
  if (!awaited) return;
  change_.any_active = true;
  change_.first_step = message.first_step;
  if (change_.waiting.empty()) completion_.complete();
}

// It is in a generation, but not according to the previous supervisor, which must have given it up: the order to end it
// was lost.
void Boundary::end_stray(Worker& worker) {
  if (change_.stage == Stage::kPreparing) runner_.cancel(workers_.name_of(worker) + " was given up before");
  worker.order_end(EndOrder::kKill);
  workers_.end_for_good(worker);
  out_.look_again();
}

void Boundary::on_message(Worker& worker, const protocol::WorkerLeft& message) {
  const bool in_time = change_.stage == Stage::kCommitted && message.generation == change_.generation;
  // Part of a change that a fence has ended since, or that a previous supervisor committed: the worker is gone in any
  // case.
  const bool ended = recovery_.active() ? message.generation <= training_.fence
                                        : resume_.unsettled && message.generation <= training_.issued;
  const bool late = worker.trains() && ended;
  if (in_time ? change_.waiting.erase(worker.id) == 0 : !late) return;
  worker.seat = Seat::kLeft;
  end_.left_in_order = end_.left_in_order || end_.mode == EndMode::kDraining;
  out_.journal(record::Left{worker.id, message.generation, message.last_step});
  workers_.expect_exit(worker);
  if (late && !in_time) {
    recovery_.waiting.erase(worker.id);
    if (recovery_.active()) halt_.recover("");
    return;
  }
  change_.any_active = true;
  if (change_.waiting.empty()) completion_.complete();
}

void Boundary::on_message(Worker& worker, const protocol::WorkerFinished& message) {
  if (worker.finished() || worker.left() || (!training_.is_member(worker.id) && !change_.in_flight(worker.id))) return;
  if (message.alone && newcomers_.ended_alone(worker)) return;
  worker.seat = Seat::kFinished;
  end_.finished.insert(worker.id);
  hangs_.forget(worker.id);
  out_.journal(record::Finished{worker.id, message.last_step});
  change_.waiting.erase(worker.id);
  recovery_.waiting.erase(worker.id);
  ending_.member_finished();
  if (recovery_.active() && change_.stage != Stage::kCommitted) halt_.recover("");
}

}  // namespace elastictrain::core
