#include "launcher/agent/notice_probe.h"

#include <asio/error_code.hpp>
#include <utility>

#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxAnswerBytes = 64u << 10;
constexpr std::size_t kMaxReasonBytes = 300;

}  // namespace

NoticeProbe::NoticeProbe(asio::io_context& io, Setup setup, Handlers handlers)
    : io_(io), setup_(std::move(setup)), handlers_(std::move(handlers)), timer_(io) {}

NoticeProbe::~NoticeProbe() {
  stop();
}

void NoticeProbe::start() {
  if (setup_.command.empty() || setup_.period.count() <= 0 || !std::exchange(stopped_, false)) return;
  ask();
}

void NoticeProbe::stop() {
  stopped_ = true;
  timer_.cancel();
  if (running_) running_->terminate();
}

void NoticeProbe::ask() {
  asked_at_ = std::chrono::steady_clock::now();
  CommandSpec spec;
  spec.argv = {"sh", "-c", setup_.command};
  spec.environment = setup_.environment;
  spec.max_output_bytes = kMaxAnswerBytes;
  spec.sweep_session = true;
  spec.deadline = setup_.period;
  auto started =
      Command::start(io_, std::move(spec), nullptr, [this, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
        if (!life.expired()) answered(end);
      });
  if (started) {
    running_ = std::move(*started);
    return;
  }
  complain("the notice command cannot be run: " + started.error().message);
  ask_later();
}

void NoticeProbe::answered(const CommandEnd& end) {
  running_.reset();
  if (stopped_) return;
  if (!end.timed_out && end.status.signal == 0 && end.status.exit_code == 0) {
    stopped_ = true;
    const std::string summary = last_line(end.output).substr(0, kMaxReasonBytes);
    return handlers_.on_notice("reported by its notice command" + (summary.empty() ? summary : ": " + summary));
  }
  if (end.timed_out) {
    complain("the notice command did not end within " + protocol::duration_text(setup_.period) +
             ", its period, and was killed");
  }
  ask_later();
}

// A command that fails repeatedly in the same way is reported once.
void NoticeProbe::complain(const std::string& text) {
  if (!std::exchange(complained_, true)) handlers_.say(text + "; it will be run again");
}

void NoticeProbe::ask_later() {
  timer_.expires_at(asked_at_ + setup_.period);
  timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired() && !stopped_) ask();
  });
}

}  // namespace elastictrain::launcher
