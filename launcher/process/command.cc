#include "launcher/process/command.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/write.hpp>
#include <cstring>

#include "launcher/process/session_sweep.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kBlockBytes = 16 << 10;
constexpr std::size_t kErrorTextBytes = 8 << 10;
constexpr std::size_t kMaxLineBytes = 64 << 10;
// A grandchild may hold the pipes open forever; the command has ended all the same.
constexpr std::chrono::milliseconds kDrainTime{500};

void keep_tail(std::string& text, std::size_t max_bytes) {
  if (text.size() > max_bytes) text.erase(0, text.size() - max_bytes);
}

ProcessSpec process_spec(const CommandSpec& spec) {
  ProcessSpec process;
  process.argv = spec.argv;
  process.environment = merge_environment(own_environment(), spec.environment);
  process.standard_input = spec.input.empty() ? Stream::kNull : Stream::kPipe;
  process.input_file = spec.input_file;
  process.new_session = true;
  process.kill_group_at_exit = true;
  return process;
}

}  // namespace

Command::Command(asio::io_context& io, CommandSpec spec, LineHandler on_line, EndHandler on_end)
    : spec_(std::move(spec)),
      on_line_(std::move(on_line)),
      on_end_(std::move(on_end)),
      deadline_(io),
      kill_timer_(io),
      drain_timer_(io),
      output_block_(kBlockBytes),
      error_block_(kBlockBytes) {}

Result<std::shared_ptr<Command>> Command::start(asio::io_context& io, CommandSpec spec, LineHandler on_line,
                                                EndHandler on_end) {
  auto command = std::make_shared<Command>(io, std::move(spec), std::move(on_line), std::move(on_end));
  auto process = Process::spawn(io, process_spec(command->spec_),
                                [self = command](ExitStatus status) { self->process_ended(status); });
  if (!process) return process.error();
  command->begin(std::move(*process));
  return command;
}

// Only reached while running if the loop itself has been destroyed.
Command::~Command() {
  if (process_ && process_->running() && spec_.sweep_session) kill_session(process_->pid());
}

void Command::begin(std::unique_ptr<Process> process) {
  process_ = std::move(process);
  open_streams_ = 2;
  read_output();
  read_error();
  write_input();
  arm_deadline();
}

void Command::write_input() {
  if (!process_->input().is_open()) return;
  asio::async_write(process_->input(), asio::buffer(spec_.input),
                    [self = shared_from_this()](const asio::error_code&, std::size_t) {
                      asio::error_code ignored;
                      self->process_->input().close(ignored);
                      // The input may hold the run's key.
                      std::fill(self->spec_.input.begin(), self->spec_.input.end(), '\0');
                    });
}

void Command::arm_deadline() {
  if (spec_.deadline.count() == 0) return;
  has_deadline_ = true;
  deadline_.expires_after(spec_.deadline);
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    // An expiry that was queued when the timer was cancelled arrives all the same.
    if (error || self->ended_ || !self->has_deadline_) return;
    self->end_.timed_out = true;
    self->terminate();
  });
}

void Command::clear_deadline() {
  has_deadline_ = false;
  deadline_.cancel();
}

void Command::read_output() {
  process_->output().async_read_some(asio::buffer(output_block_),
                                     [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
                                       self->take_output(count);
                                       if (!error) return self->read_output();
                                       --self->open_streams_;
                                       self->finish_if_done();
                                     });
}

void Command::take_output(std::size_t count) {
  if (spec_.keep_output) {
    const std::size_t room = spec_.max_output_bytes - std::min(spec_.max_output_bytes, end_.output.size());
    end_.output.append(output_block_.data(), std::min(count, room));
    if (count > room) {
      end_.output_too_large = true;
      terminate();
    }
  }
  if (!on_line_) return;
  line_.append(output_block_.data(), count);
  for (auto end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    on_line_(line_.substr(0, end));
    line_.erase(0, end + 1);
  }
  keep_tail(line_, kMaxLineBytes);
}

void Command::read_error() {
  process_->error().async_read_some(asio::buffer(error_block_),
                                    [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
                                      self->end_.error_text.append(self->error_block_.data(), count);
                                      keep_tail(self->end_.error_text, kErrorTextBytes);
                                      if (!error) return self->read_error();
                                      --self->open_streams_;
                                      self->finish_if_done();
                                    });
}

void Command::terminate() {
  if (ended_ || finished_) return;
  process_->signal_group(spec_.stop_signal);
  kill_timer_.expires_after(spec_.kill_after);
  kill_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error) self->kill_now();
  });
}

void Command::kill_now() {
  if (ended_) return;
  process_->signal_group(SIGKILL);
  if (spec_.sweep_session) kill_session(process_->pid());
}

void Command::process_ended(ExitStatus status) {
  ended_ = true;
  end_.status = status;
  deadline_.cancel();
  kill_timer_.cancel();
  if (spec_.sweep_session) kill_session(process_->pid());
  drain_timer_.expires_after(kDrainTime);
  drain_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error) self->finish();
  });
  finish_if_done();
}

void Command::finish_if_done() {
  if (ended_ && open_streams_ == 0) finish();
}

void Command::finish() {
  if (finished_) return;
  finished_ = true;
  drain_timer_.cancel();
  asio::error_code ignored;
  process_->input().close(ignored);
  process_->output().close(ignored);
  process_->error().close(ignored);
  // Moved out: the handlers may hold what holds this Command.
  const EndHandler on_end = std::move(on_end_);
  on_line_ = nullptr;
  if (on_end) on_end(std::move(end_));
}

std::string last_line(const std::string& text) {
  const auto is_blank = [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; };
  std::size_t end = text.size();
  while (end > 0 && is_blank(text[end - 1])) --end;
  const auto start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return text.substr(start == std::string::npos ? 0 : start + 1, start == std::string::npos ? end : end - start - 1);
}

std::string describe(const ExitStatus& status) {
  if (status.signal == 0) return "exit status " + std::to_string(status.exit_code);
  return protocol::signal_text(status.signal);
}

}  // namespace elastictrain::launcher
