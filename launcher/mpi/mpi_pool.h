// Purpose: the launch of an MPI pool, one agent for each rank: machines are checked for reachability first, and the
// agents' bootstrap frames go into a private file.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/command.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

// Gives the agents of an MPI pool what other agents read from their standard input: a file with one frame for
// each rank, readable by its owner only, in a directory of its own. All hosts of the pool must see it.
//
// Ownership: the file and its directory are removed with the object. Thread: any. Errors: write() names the path.

namespace elastictrain::launcher {

class PoolFile {
 public:
  // In a new directory (0700) within `directory`, which is created if it is missing. One bootstrap for each rank.
  static Result<PoolFile> write(const std::string& directory, const std::vector<protocol::AgentBootstrap>& ranks);
  PoolFile(PoolFile&& other) noexcept;
  PoolFile& operator=(PoolFile&&) = delete;
  ~PoolFile();

  const std::string& path() const { return path_; }

 private:
  explicit PoolFile(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

// A reachability check: asks machines whether they answer before something is started that needs all of them.
//
// Ownership: its commands end with it. Thread: the io_context's. Errors: one per machine, with the output of the
// command that asked it; `done` is called once.

class Reachability {
 public:
  struct Question {
    std::string machine;
    std::vector<std::string> command;  // exits with status 0 if the machine answers
  };
  // Machine to the reason why it counts as absent.
  using Absent = std::map<std::string, std::string>;

  Reachability(asio::io_context& io, std::vector<Question> questions, std::chrono::milliseconds patience,
               std::function<void(Absent)> done);
  ~Reachability();
  Reachability(const Reachability&) = delete;
  Reachability& operator=(const Reachability&) = delete;

 private:
  void ask();
  void start(const Question& question);
  void answered(const std::string& machine, const CommandEnd& end);
  void count(const std::string& machine, const std::string& problem);

  asio::io_context& io_;
  const std::vector<Question> questions_;
  const std::chrono::milliseconds patience_;
  std::function<void(Absent)> done_;
  std::size_t asked_ = 0;
  std::size_t answers_ = 0;
  Absent absent_;
  std::map<std::string, std::shared_ptr<Command>> running_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it expired
};

}  // namespace elastictrain::launcher
