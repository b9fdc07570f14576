// Purpose: asks a policy once more about views that a journal holds, and waits for each answer: for `explain`.
//
// Thread: any one. Failure: make() says why a policy from outside cannot be used; what it does wrong later is the
// reason of a decision that keeps the size.
#pragma once

#include <asio/io_context.hpp>

#include <memory>
#include <string>

#include "heuristics/policy/policy.h"
#include "supervisor/policy/program.h"
#include "supervisor/policy/runner.h"
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
  std::shared_ptr<heuristics::Decision> relayed_;  // what the program said last
  bool has_answer_ = false;
  std::unique_ptr<Program> program_;
};

}  // namespace elastictrain::policy
