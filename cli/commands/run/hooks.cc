#include "cli/commands/run/hooks.h"

#include <chrono>
#include <variant>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kMaxRunning = 4;
constexpr std::size_t kMaxWaiting = 32;
constexpr std::size_t kHookOutputBytes = 64 * 1024;
constexpr std::chrono::seconds kKillTime{5};  // from the deadline of a command to its certain end

std::string last_line_of(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? -1 : begin));
}

}  // namespace

Hooks::Hooks(asio::io_context& io, const HooksConfig& config, std::string run_name, std::string run_directory,
             std::uint64_t size, Warn warn)
    : io_(io),
      config_(config),
      run_name_(std::move(run_name)),
      run_directory_(std::move(run_directory)),
      warn_(std::move(warn)),
      size_(size) {}

void Hooks::take(const core::Record& record) {
  record.visit([this](const auto& about) { on(about); });
}

void Hooks::on(const core::record::Loss& loss) {
  start("loss", config_.loss, {{"CLASS", loss.failure_class}, {"REASON", loss.what}});
}

void Hooks::on(const core::record::Prepare& prepare) {
  reason_ = prepare.reason;
}

void Hooks::on(const core::record::GenerationComplete& complete) {
  const std::uint64_t before = std::exchange(size_, complete.world_size);
  const Facts facts = {{"GENERATION", std::to_string(complete.generation)},
                       {"CHANGE", core::change_name(complete.kind)},
                       {"STEP", std::to_string(complete.first_step)},
                       {"WORKERS_BEFORE", std::to_string(before)},
                       {"REASON", reason_}};
  if (complete.kind == protocol::ChangeKind::kRecover) start("recovered", config_.recovered, facts);
  if (before != 0 && complete.world_size != 0 && before != complete.world_size) {
    start("resized", config_.resized, facts);
  }
}

void Hooks::start(const std::string& event, const std::string& command, Facts facts) {
  if (command.empty()) return;
  if (waiting_.size() >= kMaxWaiting) {
    ++left_out_;
    return;
  }
  launcher::CommandSpec spec;
  spec.argv = {"/bin/sh", "-c", command};
  facts.insert(facts.begin(), {{"EVENT", event},
                               {"RUN_NAME", run_name_},
                               {"RUN_DIRECTORY", run_directory_},
                               {"WORKERS", std::to_string(size_)}});
  for (const auto& [name, value] : facts) spec.environment.push_back("ELASTICTRAIN_" + name + "=" + value);
  spec.max_output_bytes = kHookOutputBytes;
  spec.keep_output = false;
  spec.sweep_session = true;
  spec.deadline = std::chrono::milliseconds(config_.timeout_ms);
  waiting_.push_back({event, std::move(spec)});
  start_next();
}

void Hooks::start_next() {
  while (running_ < kMaxRunning && !waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const std::string event = next.event;
    const auto started = launcher::Command::start(
        io_, std::move(next.spec), [](const std::string&) {},
        [this, event](const launcher::CommandEnd& end) { ended(event, end); });
    if (started.ok()) {
      ++running_;
    } else {
      warn_("on." + event + ": " + started.error().message);
    }
  }
}

void Hooks::ended(const std::string& event, const launcher::CommandEnd& end) {
  --running_;
  if (end.timed_out) {
    warn_("on." + event +
          ": the command was ended: it took longer than on.timeout_ms = " + std::to_string(config_.timeout_ms));
  } else if (end.status.signal != 0 || end.status.exit_code != 0) {
    const std::string how = end.status.signal != 0 ? "was killed by " + protocol::signal_text(end.status.signal)
                                                   : "ended with status " + std::to_string(end.status.exit_code);
    const std::string said = last_line_of(end.error_text);
    warn_("on." + event + ": the command " + how + (said.empty() ? "" : ": " + said));
  }
  if (const std::uint64_t lost = std::exchange(left_out_, 0); lost > 0) {
    warn_("the commands of [on] are slower than the events: " + std::to_string(lost) + " were left out");
  }
  start_next();
}

void Hooks::end(int exit_status, const std::string& reason) {
  start("ended", config_.ended, {{"STATUS", std::to_string(exit_status)}, {"REASON", reason}});
  const auto limit = std::chrono::milliseconds(config_.timeout_ms) + kKillTime;
  const auto deadline = std::chrono::steady_clock::now() + limit * (1 + waiting_.size() / kMaxRunning);
  io_.restart();
  while (running_ > 0 && std::chrono::steady_clock::now() < deadline) {
    if (io_.run_one_until(deadline) == 0) break;
  }
}

}  // namespace elastictrain::cli
