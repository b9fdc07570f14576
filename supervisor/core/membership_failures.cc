// The part of the state machine that judges exits and losses: whose fault they are, and whether the run bears them.
#include <algorithm>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {
namespace {

constexpr std::int32_t kSignalKill = 9;
constexpr std::int32_t kSignalTerm = 15;

std::string exit_text(const WorkerExited& event) {
  if (event.signal != 0) return "was killed by signal " + std::to_string(event.signal);
  return "exited with status " + std::to_string(event.exit_code);
}

// The status that a shell would show, without the values that shells and batch systems use for themselves.
int status_of(const WorkerExited& event) {
  if (event.signal != 0) return 128 + event.signal;
  return event.exit_code >= 1 && event.exit_code <= 125 ? event.exit_code : 1;
}

std::string last_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = lines.size() > kShown ? lines.size() - kShown : 0; i < lines.size(); ++i) {
    text += "\n  " + lines[i];
  }
  return text.empty() ? text : "; its last error output:" + text;
}

const char* class_name(FailureClass what) {
  switch (what) {
    case FailureClass::kCrash:
      return "crash";
    case FailureClass::kHang:
      return "hang";
    case FailureClass::kPreemption:
      return "preemption";
    case FailureClass::kInfrastructure:
      return "infrastructure";
  }
  return "failure";
}

std::uint32_t limit_of(const FailureSettings& settings, FailureClass what) {
  switch (what) {
    case FailureClass::kCrash:
      return settings.max_crashes;
    case FailureClass::kHang:
      return settings.max_hangs;
    case FailureClass::kPreemption:
      return kUnlimited;
    case FailureClass::kInfrastructure:
      return settings.max_infrastructure;
  }
  return kUnlimited;
}

}  // namespace

void Membership::Impl::on(const WorkerExited& event) {
  const Worker* found = roster_.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  journal("exited", Fields()
                        .number("worker", worker.id.value)
                        .text("host", worker.host)
                        .integer("exit_code", event.exit_code)
                        .integer("signal", event.signal)
                        .texts("last_error_lines", event.last_error_lines));
  bury(worker.id);
  if (end_.mode != EndMode::kNow) judge_exit(worker, event);
}

void Membership::Impl::judge_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  if (worker.left || (worker.dying && !worker.finished)) {
    if (!good && worker.left) tell(Tell::Level::kWarning, name_of(worker) + " left, then " + exit_text(event));
    return;
  }
  if (worker.finished) {
    if (!good)
      fail_run(status_of(event),
               name_of(worker) + " finished, then " + exit_text(event) + last_lines(event.last_error_lines));
    return;
  }
  if (good && !worker.hello && generation_ == 0) {
    ++plain_finished_;
    return;
  }
  judge_unfinished_exit(worker, event);
}

void Membership::Impl::judge_unfinished_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  const std::string what = (good ? "ended before its training did: it " : "") + exit_text(event);
  const std::string detail = last_lines(event.last_error_lines);
  const auto& starting = change_.members;
  const bool first_start = generation_ == 0 && !restarting_ && !worker.seated && !good;
  const bool counts = !elastic_ || std::find(starting.begin(), starting.end(), worker.id) != starting.end();
  if (first_start && counts) {
    fail_run(status_of(event), name_of(worker) + " " + what + detail);
    return;
  }
  if (!worker.seated) {
    drop_joiner(worker, what + detail, Retry::kOnce);
    return;
  }
  // A drain asks members to end; one that does so without a word has done what was asked, but the others may wait for
  // it in a collective.
  if (good && end_.mode == EndMode::kDraining) {
    recover(name_of(worker) + " " + what);
    return;
  }
  const bool preempted = event.signal == kSignalTerm;
  lose_member({preempted ? FailureClass::kPreemption : FailureClass::kCrash, status_of(event),
               name_of(worker) + " " + what, detail, event.signal != kSignalKill && !preempted});
}

// Somebody who sits in a generation is gone, or as good as gone; the roster knows it already.
void Membership::Impl::lose_member(Loss loss) {
  if (end_.mode == EndMode::kNow) return;
  if (!recovering() && progressed_) losses_.clear();
  losses_.push_back(loss);
  if (end_.mode == EndMode::kFinishing && nobody_else_trains()) {
    fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  charge(loss);
  if (end_.mode == EndMode::kNow) return;
  if (end_.mode == EndMode::kNone && settings_.failures.on_failure == OnFailure::kStop) {
    fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  if (settings_.failures.on_failure == OnFailure::kShrink && target_ > settings_.min_workers) {
    --target_;
    target_reason_ = "a worker was lost";
    journal("target", Fields().number("target", target_).text("reason", target_reason_));
  }
  tell(Tell::Level::kWarning, loss.text + loss.detail);
  recover(loss.text);
}

bool Membership::Impl::nobody_else_trains() const {
  return std::none_of(roster_.workers().begin(), roster_.workers().end(),
                      [](const auto& entry) { return entry.second.trains(); });
}

// The one place where the budgets of failures are asked. A run that cannot bear the loss ends here.
void Membership::Impl::charge(const Loss& loss) {
  const std::uint32_t limit = limit_of(settings_.failures, loss.what);
  std::vector<Instant>& times = charged_[loss.what];
  std::erase_if(times, [&](Instant when) { return now_ - when > settings_.failures.window; });
  times.push_back(now_);
  journal("loss", Fields().text("class", class_name(loss.what)).number("count", times.size()).text("what", loss.text));
  if (times.size() <= limit) return;
  std::string why;
  if (limit > 0) {
    const auto window_s = std::chrono::duration_cast<std::chrono::seconds>(settings_.failures.window).count();
    why = " That is failure " + std::to_string(times.size()) + " of the class " + class_name(loss.what) + " within " +
          std::to_string(window_s) + " s, and " + std::to_string(limit) + " are allowed.";
  }
  fail_run(loss.status, loss.text + loss.detail + (why.empty() ? "" : "\n" + why.substr(1)));
}

}  // namespace elastictrain::core
