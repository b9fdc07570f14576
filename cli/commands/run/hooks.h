// Purpose: the user's commands at events of a run: [on] loss, recovered, resized, ended. Each is a shell command that
// learns what happened from its environment. They never hold up the run: few run at a time, each has a deadline, and
// events that come faster than commands end are counted, not queued without limit.
//
// Ownership: borrows the io_context. Thread: the io_context's. Errors: a command that fails is reported through `warn`,
// which may be called for each.
#pragma once

#include <asio/io_context.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/config/run_config.h"
#include "launcher/process/command.h"
#include "supervisor/core/pure/records.h"

namespace elastictrain::cli {

class Hooks {
 public:
  using Warn = std::function<void(const std::string&)>;
  using Facts = std::vector<std::pair<std::string, std::string>>;  // "REASON" and its value

  Hooks(asio::io_context& io, const HooksConfig& config, std::string run_name, std::string run_directory,
        std::uint64_t size, Warn warn);

  void take(const core::Record& record);
  // The run has ended: starts the last command and waits for all that run, each until its deadline.
  void end(int exit_status, const std::string& reason);

 private:
  template <class R>
  void on(const R&) {}  // no hook
  void on(const core::record::Loss& loss);
  void on(const core::record::Prepare& prepare);
  void on(const core::record::GenerationComplete& complete);
  void start(const std::string& event, const std::string& command, Facts facts);
  void start_next();
  void ended(const std::string& event, const launcher::CommandEnd& end);

  struct Waiting {
    std::string event;
    launcher::CommandSpec spec;
  };

  asio::io_context& io_;
  const HooksConfig config_;
  const std::string run_name_;
  const std::string run_directory_;
  Warn warn_;
  std::deque<Waiting> waiting_;
  std::size_t running_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t size_ = 0;
  std::string reason_;  // of the newest plan
};

}  // namespace elastictrain::cli
