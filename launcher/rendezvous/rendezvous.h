// Purpose: the run's side of a rendezvous: hosts on which somebody else started a command (join.h), which then starts
// the agents there. It is a host source and a launcher at once.
//
// Ownership: borrowed by the run; what hosts() and launcher() return must not outlive it. Thread: the io_context's.
// Errors: exactly one LaunchEnded per launch(). A command that is lost keeps its host for `keep_lost`, because it may
// only have lost its connection.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::launcher {

struct RendezvousOptions {
  std::vector<std::string> addresses;  // numeric; where to listen
  std::uint16_t port = 0;
  transport::Key key{};
  std::vector<Host> own;  // hosts that need no command
  std::chrono::milliseconds keep_lost{15'000};
  std::function<void(const std::string&)> say;  // a line for the user
};

class Rendezvous {
 public:
  // kUnavailable if another process listens there.
  static Result<std::unique_ptr<Rendezvous>> open(asio::io_context& io, RendezvousOptions options);
  virtual ~Rendezvous() = default;

  virtual std::uint16_t port() const = 0;
  virtual std::unique_ptr<HostSource> hosts() = 0;
  virtual std::unique_ptr<Launcher> launcher(LaunchSink sink) = 0;
  // Hosts of the run whose supervisor this one succeeds: each is kept for `keep_lost`, for its command to come back.
  virtual void expect(const std::vector<Host>& hosts) = 0;
  // `changed` gets the hosts that commands offer, whenever one comes or leaves.
  virtual void on_change(std::function<void(const std::vector<Host>&)> changed) = 0;
  // Whether a command has offered this host.
  virtual bool serves(const std::string& host) const = 0;
  // The command that offered the host, if one has, is told that the run will never use it, and ends.
  virtual void let_go(const std::string& host, const std::string& reason) = 0;
  // Tells all commands how the run has ended, and runs the loop until they have heard it, at most `limit`.
  virtual void finish(int status, std::chrono::milliseconds limit) = 0;
};

}  // namespace elastictrain::launcher
