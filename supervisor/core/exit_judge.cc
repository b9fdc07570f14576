#include "supervisor/core/exit_judge.h"

#include "supervisor/core/change.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/exit_text.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/plain_restart.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

namespace {

record::Exited exit_record(const Worker& worker, const WorkerExited& event) {
  record::Exited exited{worker.id, worker.host, event.exit_code, event.signal, event.last_error_lines, {}, {}, {}};
  if (event.out_of_memory) {
    exited.out_of_memory = true;
    exited.memory_limit_bytes = event.memory_limit_bytes;
    exited.peak_bytes = event.peak_bytes;
  }
  return exited;
}

}  // namespace

ExitJudge::ExitJudge(Roster& roster, Outbox& out, Startup& startup, Training& training, Change& change, RunEnd& end,
                     WorkerControl& workers, Ending& ending, Halt& halt, FailureJudge& judge, PlainRestart& plain,
                     NewcomerJudge& newcomers)
    : roster_(roster),
      out_(out),
      startup_(startup),
      training_(training),
      change_(change),
      end_(end),
      workers_(workers),
      ending_(ending),
      halt_(halt),
      judge_(judge),
      plain_(plain),
      newcomers_(newcomers) {}

void ExitJudge::on(const WorkerExited& event) {
  const Worker* found = roster_.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  out_.journal(exit_record(worker, event));
  workers_.remove(worker.id);
  if (end_.mode != EndMode::kNow) judge_exit(worker, event);
  newcomers_.forget(worker.id);
}

void ExitJudge::judge_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  if (worker.left() || (worker.dying() && !worker.finished())) {
    if (!good && worker.left())
      out_.tell(Tell::Level::kWarning, workers_.name_of(worker) + " left, then " + exit_text(event));
    return;
  }
  if (worker.finished()) {
    if (!good)
      ending_.fail_run(exit_status_of(event),
                       workers_.name_of(worker) + " finished, then " + exit_text(event) + last_words(event));
    return;
  }
  if (good && !worker.greeted() && training_.generation == 0) {
    ++startup_.plain_finished;
    return;
  }
  judge_unfinished_exit(worker, event);
}

void ExitJudge::judge_unfinished_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  const std::string what = (good ? "exited before its training ended: it " : "") + exit_text(event);
  const std::string detail = last_words(event);
  const bool first_start = training_.generation == 0 && !training_.restarting && !worker.seated() && !good;
  const bool counts = !startup_.elastic || change_.plans(worker.id);
  if (first_start && counts) {
    if (startup_.is_plain() && plain_.begin(workers_.name_of(worker) + " " + what)) return;
    ending_.fail_run(exit_status_of(event), workers_.name_of(worker) + " " + what + detail);
    return;
  }
  if (!worker.seated()) {
    workers_.drop_joiner(worker, what + detail, Retry::kOnce);
    if (good) newcomers_.ended_before_joining(workers_.name_of(worker) + " " + what + detail);
    return;
  }
  // A drain asks members to end, and the end of the program asks joiners to. A worker that exits without a message has
  // complied, but the others may wait for it in a collective.
  if (good && (end_.mode == EndMode::kDraining || end_.mode == EndMode::kFinishing)) {
    halt_.recover(workers_.name_of(worker) + " " + what);
    return;
  }
  // A sender of TERM and then KILL, as a batch system is, takes the worker away; the worker has not failed.
  const bool taken = worker.noticed != Noticed::kNo && event.signal == kSignalKill;
  const bool preempted = event.signal == kSignalTerm || taken;
  const bool by_itself = event.signal != kSignalKill && !preempted;
  if (!preempted && newcomers_.exited(worker.id, by_itself, good, workers_.name_of(worker) + " " + what + detail))
    return;
  judge_.lose_member({preempted ? FailureClass::kPreemption : FailureClass::kCrash, exit_status_of(event), worker.host,
                      workers_.name_of(worker) + " " + what, detail, by_itself, event.out_of_memory});
}

}  // namespace elastictrain::core
