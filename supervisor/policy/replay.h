// Purpose: asks a policy again about views that a journal holds, and waits for each answer: for `explain`.
//
// Thread: any one. Errors: make() reports why an external policy cannot be used; a later failure is the reason of a
// decision that keeps the size.
#pragma once

#include <asio/io_context.hpp>

#include <memory>
#include <string>

#include "heuristics/policy/policy.h"
#include "supervisor/policy/program.h"
#include "supervisor/policy/runner_settings.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

class Replay {
 public:
  static Result<std::unique_ptr<Replay>> make(const RunnerSettings& settings);

  heuristics::Decision decide(const heuristics::ClusterView& view);

 private:
  Replay() = default;
  Status open(const RunnerSettings& settings);
  Status start(const RunnerSettings& settings);
  void ask(const heuristics::ClusterView& view);

  asio::io_context io_{1};
  std::unique_ptr<heuristics::Policy> policy_;
  std::unique_ptr<heuristics::PolicyState> state_;
  heuristics::Rng rng_;
  std::shared_ptr<heuristics::Decision> relayed_;  // the program's last decision
  bool has_answer_ = false;
  std::unique_ptr<Program> program_;
};

}  // namespace elastictrain::policy
