// Purpose: a reachability check: asks machines whether they answer before something is started that needs all of them.
//
// Ownership: its commands end with it. Thread: the io_context's. Errors: one per machine, with the output of the
// command that asked it; `done` is called once.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/command.h"

namespace elastictrain::launcher {

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
