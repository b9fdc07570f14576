// The part of the state machine that handles a TERM that a worker got from a process other than its agent. A system
// that ends a job or a host sends TERM to every process there; agents and the run get it as well, and their plan lets
// the workers leave. A TERM to a single worker is a request to remove that worker: it is replaced.
#include <algorithm>

#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {
namespace {

// Relative to the time after which a silent host is suspected: by then all other receivers of TERM have reported it.
constexpr int kSuspectTimes = 2;

}  // namespace

void Membership::Impl::got_term(Worker& worker) {
  if (worker.noticed != Noticed::kNo) return;
  worker.noticed = Noticed::kHeard;
  expect_notices();
}

void Membership::Impl::expect_notices() {
  cancel(notice_timer_);
  notice_timer_ = arm({TimerKind::kNotices, {}, {}}, now_ + kSuspectTimes * settings_.suspect);
}

void Membership::Impl::answer_notices() {
  notice_timer_ = 0;
  if (end_.mode != EndMode::kNone) return;
  const bool all = all_noticed();
  bool look_again = false;
  for (auto& [id, worker] : roster_.workers()) {
    if (worker.noticed != Noticed::kHeard || worker.dying || worker.finished) continue;
    if (displaced(worker)) {  // it leaves with its host, unless that comes back
      look_again = true;
      continue;
    }
    worker.noticed = Noticed::kAnswered;
    const NoticeAnswer answer = answer_to(worker, all);
    journal(record::TermAnswered{id, text_of(answer)});
    tell(Tell::Level::kWarning, name_of(worker) + " got TERM: " + text_of(answer));
    act_on(answer, worker);
  }
  if (look_again) expect_notices();
}

bool Membership::Impl::all_noticed() const {
  const auto& members = newest_members();
  return members.size() > 1 && std::all_of(members.begin(), members.end(), [this](WorkerId id) {
           const Worker* worker = roster_.worker(id);
           return worker != nullptr && worker->noticed == Noticed::kHeard;
         });
}

Membership::Impl::NoticeAnswer Membership::Impl::answer_to(const Worker& worker, bool all) const {
  if (all) return NoticeAnswer::kOneOfAll;
  return worker.seated ? NoticeAnswer::kReplace : NoticeAnswer::kDismiss;
}

void Membership::Impl::act_on(NoticeAnswer answer, Worker& worker) {
  if (answer == NoticeAnswer::kReplace) {
    to_replace_.try_emplace(worker.id, protocol::ChangeKind::kReplace);
    new_wish();
  }
  if (answer != NoticeAnswer::kDismiss) return;
  const auto& planned = change_.members;
  const bool in_plan = std::find(planned.begin(), planned.end(), worker.id) != planned.end();
  if (in_plan && change_.stage == Stage::kPreparing) cancel_change(name_of(worker) + " got TERM");
  dismiss(worker, "it got TERM");
  dirty_ = true;
}

std::string Membership::Impl::text_of(NoticeAnswer answer) {
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

}  // namespace elastictrain::core
