#include "cli/commands/cluster/sweep_program.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

Error wrong(const std::string& what) {
  return {ErrorCode::kInvalid, what};
}

Status take_reasons(const nlohmann::json& from, const std::string& key, const SweepView& sweep,
                    std::map<std::string, std::string>& reasons) {
  if (!from.is_object()) return wrong(key + " must be an object: names of trials with a reason for each");
  for (const auto& [name, reason] : from.items()) {
    const auto is_it = [&name = name](const TrialView& trial) { return trial.name == name; };
    if (std::none_of(sweep.trials.begin(), sweep.trials.end(), is_it)) {
      return wrong(key + " names " + policy::one_line(name) + ", which is no trial of this sweep");
    }
    if (!reason.is_string()) return wrong(key + "." + name + " must be a text, the reason");
    reasons[name] = policy::one_line(reason.get<std::string>());
  }
  return {};
}

// What may change the program's mind: slots and the cluster's reasons do not.
std::string text_about(const SweepView& sweep) {
  std::string text;
  for (const TrialView& one : sweep.trials) {
    text += one.name + " " + one.state + " " + std::to_string(one.trial.reports.size()) + "\n";
  }
  return text;
}

}  // namespace

Result<SweepAnswer> read_sweep_answer(std::string_view text, const SweepView& sweep) {
  const nlohmann::json given = parse_json(text);
  if (!given.is_object()) return wrong("it must be {\"stop\": {\"NAME\": \"REASON\"}, \"continue\": {…}}");
  SweepAnswer answer;
  for (const auto& [key, value] : given.items()) {
    if (key != "stop" && key != "continue") {
      return wrong("it has " + policy::one_line(key) + "; there are stop and continue");
    }
    const Status taken = take_reasons(value, key, sweep, key == "stop" ? answer.stop : answer.go_on);
    if (!taken.ok()) return taken.error();
  }
  const auto is_in_both = [&](const auto& one) { return answer.go_on.contains(one.first); };
  const auto both = std::find_if(answer.stop.begin(), answer.stop.end(), is_in_both);
  if (both != answer.stop.end()) return wrong("both stop and continue name " + both->first);
  return answer;
}

Result<std::unique_ptr<SweepProgram>> SweepProgram::start(asio::io_context& io, const SweepFile& file,
                                                          const std::string& directory,
                                                          std::function<void(const std::string& line)> on_line) {
  std::unique_ptr<SweepProgram> made(new SweepProgram);
  const auto answered = [self = made.get()](const std::string& line) -> Status {
    auto answer = read_sweep_answer(line, self->asked_);
    if (!answer.ok()) return answer.error();
    self->answer_ = std::move(*answer);
    return {};
  };
  const auto failed = [self = made.get()](const std::string& why) {
    self->failure_ = "the program of stop.program " + why + "; no trial is stopped any more";
  };
  const policy::Outside outside{"", "", file.program, file.timeout_ms, "stop.program", "verdict", directory};
  auto program = policy::Program::start(io, outside, {answered, failed, std::move(on_line)});
  if (!program.ok()) return program.error();
  made->program_ = std::move(*program);
  return made;
}

void SweepProgram::ask(const SweepView& sweep) {
  if (!program_->is_ready()) return;
  std::string about = text_about(sweep);
  if (about == about_) return;
  about_ = std::move(about);
  asked_ = sweep;
  program_->ask(json_text(sweep_json(sweep)));
}

}  // namespace elastictrain::cli
