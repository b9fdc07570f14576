// Purpose: runs the user's notice command periodically to learn whether this host is about to go away (a cloud's
// preemption notice, a batch system's end of time): status 0 means yes.
//
// Ownership: the agent's service owns it. Thread: the io_context's thread. Errors: a command that cannot be run or does
// not end within its period is reported once on `say`, and run again.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/command.h"

namespace elastictrain::launcher {

class NoticeProbe {
 public:
  struct Setup {
    std::string command;  // of `sh -c`; empty: no command
    std::chrono::milliseconds period{0};
    std::vector<std::string> environment;  // "NAME=value", added to the agent's own
  };
  struct Handlers {
    std::function<void(const std::string& reason)> on_notice;  // once; the command is not run afterwards
    std::function<void(const std::string& text)> say;
  };

  NoticeProbe(asio::io_context& io, Setup setup, Handlers handlers);
  ~NoticeProbe();

  void start();
  void stop();

 private:
  void ask();
  void answered(const CommandEnd& end);
  void complain(const std::string& text);
  void ask_later();

  asio::io_context& io_;
  Setup setup_;
  Handlers handlers_;
  asio::steady_timer timer_;
  std::shared_ptr<Command> running_;
  std::chrono::steady_clock::time_point asked_at_;
  bool complained_ = false;
  bool stopped_ = true;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::launcher
