#include "supervisor/policy/replay.h"

#include <utility>

#include "supervisor/policy/external_policy.h"
#include "supervisor/policy/view_json.h"

namespace elastictrain::policy {

Result<std::unique_ptr<Replay>> Replay::make(const RunnerSettings& settings) {
  std::unique_ptr<Replay> replay(new Replay);
  if (const Status opened = replay->open(settings); !opened.ok()) return opened.error();
  return replay;
}

Status Replay::open(const RunnerSettings& settings) {
  const Outside& outside = settings.outside;
  std::unique_ptr<heuristics::Policy> for_size;
  if (!outside.library.empty()) {
    auto library = load_library(outside.library, outside.argument, settings.seed);
    if (!library.ok()) return library.error();
    for_size = std::move(*library);
  }
  if (!outside.program.empty()) {
    relayed_ = std::make_shared<heuristics::Decision>();
    for_size = relay(relayed_);
    if (Status started = start(settings); !started.ok()) return started;
  }
  policy_ = make_policy(settings, std::move(for_size));
  state_ = policy_->initial_state();
  rng_.seed(settings.seed);
  return {};
}

Status Replay::start(const RunnerSettings& settings) {
  const auto answer = [this](heuristics::Decision decision) {
    *relayed_ = std::move(decision);
    has_answer_ = true;
  };
  const auto answered = [answer](const std::string& line) -> Status {
    auto decision = read_decision(line);
    if (!decision.ok()) return decision.error();
    answer(std::move(*decision));
    return {};
  };
  const auto failed = [answer](const std::string& why) { answer(failed_decision("the program " + why)); };
  auto program = Program::start(io_, settings.outside, {answered, failed, [](const std::string&) {}});
  if (!program.ok()) return program.error();
  program_ = std::move(*program);
  return {};
}

heuristics::Decision Replay::decide(const heuristics::ClusterView& view) {
  if (program_) ask(view);
  return policy_->decide(view, *state_, rng_);
}

// The program's own deadlines bound the waits.
void Replay::ask(const heuristics::ClusterView& view) {
  while (!program_->has_failed() && !program_->is_ready()) io_.run_one();
  if (program_->has_failed()) return;
  has_answer_ = false;
  program_->ask(to_json(view));
  while (!has_answer_) io_.run_one();
}

}  // namespace elastictrain::policy
