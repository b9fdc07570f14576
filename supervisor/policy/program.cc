#include "supervisor/policy/program.h"

#include <signal.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/write.hpp>
#include <utility>

#include "heuristics/cost/cost.h"
#include "launcher/process/command.h"
#include "launcher/process/session_sweep.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::policy {
namespace {

constexpr std::size_t kBlockBytes = 16 << 10;
constexpr std::size_t kMaxLineBytes = 4 << 20;  // of a decision: enough for the speeds of 100,000 workers
constexpr std::size_t kMaxErrorLineBytes = 4 << 10;
constexpr std::uint64_t kMaxErrorLines = 100;  // between two views

launcher::ProcessSpec process_spec(const std::vector<std::string>& argv, const std::string& directory) {
  launcher::ProcessSpec spec;
  spec.argv = argv;
  spec.working_directory = directory;
  spec.environment = launcher::own_environment();
  spec.standard_input = launcher::Stream::kPipe;
  spec.new_session = true;
  spec.kill_group_at_exit = true;
  spec.parent_death_signal = SIGKILL;
  return spec;
}

}  // namespace

Program::Program(asio::io_context& io, const Outside& outside, Handlers handlers)
    : handlers_(std::move(handlers)),
      argv_(outside.program),
      timeout_(outside.timeout_ms),
      answer_(outside.answer),
      output_block_(kBlockBytes),
      error_block_(kBlockBytes),
      deadline_(io) {}

Result<std::unique_ptr<Program>> Program::start(asio::io_context& io, const Outside& outside, Handlers handlers) {
  std::unique_ptr<Program> program(new Program(io, outside, std::move(handlers)));
  auto process = launcher::Process::spawn(
      io, process_spec(program->argv_, outside.directory),
      [self = program.get(), life = std::weak_ptr(program->life_)](launcher::ExitStatus status) {
        if (!life.expired()) self->ended(status);
      });
  if (!process.ok()) return Error{ErrorCode::kInvalid, std::string(outside.key) + ": " + process.error().message};
  program->process_ = std::move(*process);
  program->begin();
  return program;
}

Program::~Program() {
  if (process_ && process_->running()) launcher::kill_session(process_->pid());
}

void Program::begin() {
  read_output();
  read_error();
}

void Program::ask(std::string view) {
  asked_ = true;
  if (error_lines_ > kMaxErrorLines) {
    handlers_.on_line("(" + std::to_string(error_lines_ - kMaxErrorLines) + " more lines are omitted)");
  }
  error_lines_ = 0;
  view_ = std::move(view) + "\n";
  arm("gave no " + answer_ + " within " + protocol::duration_text(timeout_));
  asio::async_write(process_->input(), asio::buffer(view_),
                    [this, life = std::weak_ptr(life_)](const asio::error_code& error, std::size_t) {
                      if (error && !life.expired()) ending("does not read its input any more");
                    });
}

void Program::close() {
  handlers_ = {[](const std::string&) { return Status(); }, [](const std::string&) {}, std::move(handlers_.on_line)};
  asio::error_code ignored;
  process_->input().close(ignored);
}

void Program::read_output() {
  process_->output().async_read_some(
      asio::buffer(output_block_),
      [this, life = std::weak_ptr(life_)](const asio::error_code& error, std::size_t count) {
        if (life.expired() || has_failed_) return;
        take_output(count);
        if (has_failed_) return;
        if (!error) return read_output();
        --open_streams_;
        ending("closed its output");
      });
}

void Program::take_output(std::size_t count) {
  line_.append(output_block_.data(), count);
  for (auto end = line_.find('\n'); end != std::string::npos && !has_failed_; end = line_.find('\n')) {
    const std::string line = line_.substr(0, end);
    line_.erase(0, end + 1);
    take_line(line);
  }
  if (line_.size() > kMaxLineBytes) fail("wrote a line of more than " + std::to_string(kMaxLineBytes) + " bytes");
}

void Program::take_line(const std::string& line) {
  if (!asked_) return fail("wrote a line without a view to answer");
  asked_ = false;
  if (!is_ending_) deadline_.cancel();
  const Status read = handlers_.answered(line);
  if (!read.ok()) fail("wrote a line that is not a " + answer_ + ": " + read.error().message);
}

void Program::read_error() {
  process_->error().async_read_some(asio::buffer(error_block_), [this, life = std::weak_ptr(life_)](
                                                                    const asio::error_code& error, std::size_t count) {
    if (life.expired()) return;
    take_error(count);
    if (!error) return read_error();
    if (!error_line_.empty()) say(std::exchange(error_line_, {}));
    --open_streams_;
    fail_if_over();
  });
}

void Program::take_error(std::size_t count) {
  for (const char byte : std::string_view(error_block_.data(), count)) {
    if (byte == '\n') {
      say(std::exchange(error_line_, {}));
    } else if (error_line_.size() < kMaxErrorLineBytes) {
      error_line_ += byte;
    }
  }
}

void Program::say(std::string line) {
  if (++error_lines_ <= kMaxErrorLines) handlers_.on_line(line);
  last_error_line_ = std::move(line);
}

// Whichever is noticed first, the others follow soon: together they form the reason.
void Program::ending(const std::string& otherwise) {
  if (has_failed_) return;
  if (!std::exchange(is_ending_, true)) arm(otherwise);
  fail_if_over();
}

void Program::ended(launcher::ExitStatus status) {
  launcher::kill_session(process_->pid());
  end_text_ = "ended with " + launcher::describe(status);
  ending(end_text_);
}

void Program::fail_if_over() {
  if (open_streams_ > 0 || end_text_.empty()) return;
  fail(end_text_ + (last_error_line_.empty() ? "" : ": " + last_error_line_));
}

void Program::arm(const std::string& otherwise) {
  deadline_.expires_after(timeout_);
  deadline_.async_wait([this, otherwise, life = std::weak_ptr(life_)](const asio::error_code& error) {
    if (error || life.expired()) return;
    // It may have expired while an answer was on its way to us.
    const bool is_over = deadline_.expiry() <= std::chrono::steady_clock::now();
    if (is_over && (asked_ || is_ending_)) fail(otherwise);
  });
}

void Program::fail(const std::string& why) {
  if (std::exchange(has_failed_, true)) return;
  deadline_.cancel();
  process_->signal_group(SIGKILL);
  if (process_->running()) launcher::kill_session(process_->pid());
  asio::error_code ignored;
  process_->input().close(ignored);
  process_->output().close(ignored);
  handlers_.failed(why);
}

namespace {

bool is_pair(const nlohmann::json& point) {
  return point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
}

}  // namespace

Result<UtilityTable> read_utility(std::string_view text) {
  const auto wrong = [](const std::string& what) { return Error{ErrorCode::kInvalid, what}; };
  const nlohmann::json answer = parse_json(text);
  if (!answer.is_object() || !answer.contains("utility") || !answer["utility"].is_array()) {
    return wrong("it must be {\"utility\": [[SECONDS, VALUE], ...]}");
  }
  const auto& points = answer["utility"];
  if (points.size() > kMaxUtilityPoints) {
    return wrong("it has " + std::to_string(points.size()) + " points; at most " + std::to_string(kMaxUtilityPoints) +
                 " are allowed");
  }
  std::vector<std::pair<double, double>> pairs;
  for (const auto& point : points) {
    if (!is_pair(point)) return wrong("point " + std::to_string(pairs.size() + 1) + " must be [SECONDS, VALUE]");
    pairs.emplace_back(point[0].get<double>(), point[1].get<double>());
  }
  if (auto problem = heuristics::problem_of_table(pairs); !problem.empty()) return wrong(problem);
  UtilityTable table;
  for (const auto& [seconds, value] : pairs) table.push_back({seconds, value});
  return table;
}

Result<std::unique_ptr<UtilityProgram>> UtilityProgram::start(asio::io_context& io, const Outside& outside,
                                                              std::function<void(const std::string& line)> on_line) {
  std::unique_ptr<UtilityProgram> made(new UtilityProgram);
  const auto answered = [self = made.get()](const std::string& line) -> Status {
    auto table = read_utility(line);
    if (!table.ok()) return table.error();
    self->table_ = std::move(*table);
    self->has_answer_ = true;
    return {};
  };
  const auto failed = [self = made.get()](const std::string& why) {
    self->table_.clear();
    self->failure_ = "the program of policy.utility_program " + why;
  };
  auto program = Program::start(io, outside, {answered, failed, std::move(on_line)});
  if (!program.ok()) return program.error();
  made->program_ = std::move(*program);
  return made;
}

bool UtilityProgram::is_settled(const std::function<heuristics::ClusterView()>& state) {
  if (program_->has_failed() || std::exchange(has_answer_, false)) return true;
  if (program_->is_ready()) program_->ask(to_json(state()));
  return false;
}

void UtilityProgram::close() {
  program_->close();
}

}  // namespace elastictrain::policy
