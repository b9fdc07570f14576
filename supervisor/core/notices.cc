#include "supervisor/core/notices.h"

#include <algorithm>

#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/note_keys.h"

namespace elastictrain::core {
namespace {

// Relative to the time after which a silent host is suspected: by then all other receivers of TERM have reported it.
constexpr int kSuspectTimes = 2;

}  // namespace

Notices::Notices(const RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Change& change,
                 RunEnd& end, Planner& planner, WorkerControl& workers, ChangeRunner& runner)
    : settings_(settings),
      roster_(roster),
      out_(out),
      desired_(desired),
      change_(change),
      end_(end),
      planner_(planner),
      workers_(workers),
      runner_(runner) {}

void Notices::got_term(Worker& worker) {
  if (worker.noticed != Noticed::kNo) return;
  worker.noticed = Noticed::kReceived;
  expect_notices();
}

void Notices::expect_notices() {
  out_.cancel(timer_);
  timer_ = out_.arm({TimerKind::kNotices, {}, {}}, out_.now() + kSuspectTimes * settings_.suspect);
}

void Notices::answer_notices() {
  timer_ = 0;
  if (end_.begun()) return;
  const bool all = all_noticed();
  bool look_again = false;
  for (auto& [id, worker] : roster_.workers()) {
    if (worker.noticed != Noticed::kReceived || worker.dying() || worker.finished()) continue;
    if (planner_.displaced(worker)) {  // it leaves with its host, unless that comes back
      look_again = true;
      continue;
    }
    worker.noticed = Noticed::kAnswered;
    const NoticeAnswer answer = answer_to(worker, all);
    out_.journal(record::TermAnswered{id, text_of(answer)});
    out_.tell(Tell::Level::kWarning, workers_.name_of(worker) + " got TERM: " + text_of(answer));
    act_on(answer, worker);
  }
  if (look_again) expect_notices();
}

bool Notices::all_noticed() const {
  const auto& members = workers_.newest_members();
  return members.size() > 1 && std::all_of(members.begin(), members.end(), [this](WorkerId id) {
           const Worker* worker = roster_.worker(id);
           return worker != nullptr && worker->noticed == Noticed::kReceived;
         });
}

Notices::NoticeAnswer Notices::answer_to(const Worker& worker, bool all) const {
  if (all) return NoticeAnswer::kOneOfAll;
  return worker.seated() ? NoticeAnswer::kReplace : NoticeAnswer::kDismiss;
}

void Notices::act_on(NoticeAnswer answer, Worker& worker) {
  if (answer == NoticeAnswer::kReplace) {
    desired_.replacements.try_emplace(worker.id, protocol::ChangeKind::kReplace);
    desired_.renew(roster_, change_, out_);
  }
  if (answer != NoticeAnswer::kDismiss) return;
  if (change_.plans(worker.id) && change_.stage == Stage::kPreparing)
    runner_.cancel(workers_.name_of(worker) + " got TERM");
  workers_.dismiss(worker, "it got TERM");
  out_.look_again();
}

std::string Notices::text_of(NoticeAnswer answer) {
  switch (answer) {
    case NoticeAnswer::kOneOfAll:
      return "so did all others; they leave when their hosts or the run get it";
    case NoticeAnswer::kReplace:
      return "another worker takes its place";
    case NoticeAnswer::kDismiss:
      return "it leaves, and another one is started";
  }
  return {};
}

void Notices::on_message(Worker& worker, const protocol::WorkerNote& message) {
  out_.journal(record::Note{worker.id, message.key, message.value});
  if (message.key == protocol::kTermNote) got_term(worker);
  if (message.key != protocol::kNotesDropped) return;
  out_.tell(Tell::Level::kWarning, workers_.name_of(worker) + ": " + message.value);
}

}  // namespace elastictrain::core
