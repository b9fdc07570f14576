// Purpose: polls the host source and passes on what it offers.
// Ownership: borrows the source. Thread: the io_context's.
// Errors: a failed poll keeps the previous hosts (none at first) and is reported, once for each distinct message.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/host_source.h"

namespace elastictrain {

class HostPoller {
 public:
  using Offered = std::function<void(const std::vector<launcher::Host>&)>;
  using Failed = std::function<void(const std::string&)>;

  HostPoller(asio::io_context& io, launcher::HostSource& source, Offered offered, Failed failed)
      : source_(source), offered_(std::move(offered)), failed_(std::move(failed)), timer_(io), first_(io) {}

  enum class Begin {
    // Without an answer soon, or after a failure, a run begins with no host: its time to start runs from then on.
    kAnew,
    // The hosts that the run has stay until the first answer.
    kTakeOver
  };
  void start(Begin begin);
  void stop();

 private:
  void poll();
  void begin_without_answer();
  void answered(const Result<std::vector<launcher::Host>>& hosts);

  launcher::HostSource& source_;
  Offered offered_;
  Failed failed_;
  asio::steady_timer timer_;
  asio::steady_timer first_;  // for the first answer
  std::string last_failure_;
  bool answered_once_ = false;
  Begin begin_ = Begin::kAnew;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain
