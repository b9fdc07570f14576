#include "launcher/mpi/reachability.h"

#include <asio/post.hpp>
#include <utility>

#include "launcher/tool_output.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kAtOnce = 32;  // machines that are asked

std::string problem_of(const CommandEnd& end) {
  const std::string answer = last_lines(end.error_text);
  if (!answer.empty()) return answer;
  return end.timed_out ? "no answer arrived in time" : "the check ended with " + describe(end.status);
}

}  // namespace

Reachability::Reachability(asio::io_context& io, std::vector<Question> questions, std::chrono::milliseconds patience,
                           std::function<void(Absent)> done)
    : io_(io), questions_(std::move(questions)), patience_(patience), done_(std::move(done)) {
  asio::post(io_, [this, life = std::weak_ptr<char>(life_)] {
    if (!life.expired()) ask();
  });
}

Reachability::~Reachability() {
  for (const auto& [machine, command] : running_) command->terminate();
}

void Reachability::ask() {
  while (asked_ < questions_.size() && running_.size() < kAtOnce) start(questions_[asked_++]);
  if (answers_ < questions_.size()) return;
  // Moved out: the call may destroy this object.
  const auto done = std::exchange(done_, nullptr);
  if (done) done(std::move(absent_));
}

void Reachability::start(const Question& question) {
  CommandSpec spec;
  spec.argv = question.command;
  spec.deadline = patience_;
  const auto ended = [this, machine = question.machine, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
    if (!life.expired()) answered(machine, end);
  };
  auto command = Command::start(io_, std::move(spec), nullptr, ended);
  if (command)
    running_[question.machine] = std::move(*command);
  else
    count(question.machine, command.error().message);
}

void Reachability::answered(const std::string& machine, const CommandEnd& end) {
  running_.erase(machine);
  const bool answers = end.status.signal == 0 && end.status.exit_code == 0;
  count(machine, answers ? "" : problem_of(end));
  ask();
}

void Reachability::count(const std::string& machine, const std::string& problem) {
  ++answers_;
  if (!problem.empty()) absent_[machine] = problem;
}

}  // namespace elastictrain::launcher
