#include "launcher/rendezvous/join.h"

#include <signal.h>

#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/agent_program.h"
#include "launcher/host_launchers.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::launcher {
namespace {

using tcp = asio::ip::tcp;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using protocol::GuestDown;
using protocol::GuestUp;

constexpr int kUnreachable = 69;
constexpr int kRefusedStatus = 78;
constexpr milliseconds kRetry{500};
constexpr milliseconds kAttempt{10'000};
constexpr milliseconds kFlush{500};

std::uint64_t random_number() {
  const transport::Key bytes = transport::make_key();
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | bytes[static_cast<std::size_t>(i)];
  return number | 1;
}

class HostCommand {
 public:
  explicit HostCommand(const JoinOptions& options)
      : options_(options),
        name_(options.host),
        resolver_(io_),
        retry_(io_),
        end_(io_),
        signals_(io_, SIGINT, SIGTERM),
        launcher_(make_local_launcher(io_, [this](const LaunchEnded& ended) { agent_ended(ended); })) {}

  int run() {
    give_up_at_ = Clock::now() + options_.patience;
    // Of signals to all processes of a job, the agent takes those that are notices.
    for (const int number : {SIGUSR1, SIGUSR2}) ::signal(number, SIG_IGN);
    await_signal();
    resolve();
    while (!status_ && io_.run_one() != 0) {
    }
    close();
    return *status_;
  }

 private:
  void resolve() {
    resolver_.async_resolve(options_.endpoint_host, std::to_string(options_.port),
                            [this](const asio::error_code& error, const tcp::resolver::results_type& found) {
                              if (error) return not_reached(ErrorCode::kUnavailable, error.message());
                              std::vector<std::string> addresses;
                              for (const auto& entry : found) {
                                addresses.push_back(entry.endpoint().address().to_string());
                              }
                              connect(std::move(addresses));
                            });
  }

  void connect(std::vector<std::string> addresses) {
    transport::connect(io_, std::move(addresses), options_.port, options_.key, kAttempt, {}, [this](auto connection) {
      if (!connection.ok()) return not_reached(connection.error().code, connection.error().message);
      connection_ = std::move(*connection);
      connection_->start([this](const std::string& body) { received(body); },
                         [this](const Error& error) { lost(error.message); });
      reported_ = false;
      send(protocol::HostOffer{limits::kProtocolVersion, build_id(), instance_, name_, options_.slots});
    });
  }

  // Agents that run go on meanwhile; they end by themselves when their supervisor stays away.
  void not_reached(ErrorCode code, const std::string& why) {
    if (status_) return;
    const std::string where = options_.endpoint_host + ":" + std::to_string(options_.port);
    if (Clock::now() >= give_up_at_ && agents_.empty()) {
      return end(kUnreachable, "no run was found at " + where + " in time: " + why);
    }
    if (!std::exchange(reported_, true)) {
      options_.say("waiting for the run at " + where + ": " + why +
                   (code == ErrorCode::kRefused ? "; do both have the same secret and the same name of the run?" : "") +
                   "; it is tried for " + protocol::duration_text(options_.patience));
    }
    retry_.expires_after(kRetry);
    retry_.async_wait([this](const asio::error_code& error) {
      if (!error) resolve();
    });
  }

  void lost(const std::string& why) {
    connection_.reset();
    give_up_at_ = Clock::now() + options_.patience;
    not_reached(ErrorCode::kUnavailable, why);
  }

  void received(const std::string& body) {
    auto message = protocol::decode_body<GuestDown>(body);
    if (!message.ok()) return end(kUnreachable, "the run sent a " + message.error().message);
    if (auto* bootstrap = std::get_if<protocol::AgentBootstrap>(&*message)) return start(std::move(*bootstrap));
    if (const auto* forget = std::get_if<protocol::ForgetAgent>(&*message)) return launcher_->forget(forget->agent);
    if (const auto* refused = std::get_if<protocol::HostRefused>(&*message)) {
      return end(kRefusedStatus, "the run does not take this host: " + refused->reason);
    }
    if (const auto* unneeded = std::get_if<protocol::HostUnneeded>(&*message)) {
      options_.say("the run does not use this host: " + unneeded->reason + "; this command ends");
      ended_with_ = 0;
    } else {
      ended_with_ = std::get<protocol::RunEnded>(*message).status;
    }
    end_when_idle(options_.grace);
  }

  void start(protocol::AgentBootstrap bootstrap) {
    agents_.insert(bootstrap.agent);
    name_ = bootstrap.host;
    launcher_->launch({bootstrap.agent, name_, std::move(bootstrap)});
  }

  void agent_ended(const LaunchEnded& ended) {
    agents_.erase(ended.agent);
    send(protocol::AgentEnded{ended.agent, ended.launched, ended.exit_code, ended.signal, ended.message,
                              ended.agent_ended});
    if (ended_with_ && agents_.empty()) end(*ended_with_, "");
  }

  void await_signal() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (ended_with_) return end(*ended_with_, "ended before its agent");
      ended_with_ = 128 + signal;
      send(protocol::HostLeaves{"its command got signal " + std::to_string(signal)});
      await_signal();
      end_when_idle(options_.grace);
    });
  }

  void end_when_idle(milliseconds limit) {
    if (agents_.empty()) return end(*ended_with_, "");
    end_.expires_after(limit);
    end_.async_wait([this](const asio::error_code& error) {
      if (!error) end(*ended_with_, "its agent did not end in time");
    });
  }

  void end(int status, const std::string& why) {
    if (status_) return;
    status_ = status;
    if (!why.empty()) options_.say(why);
  }

  void send(GuestUp message) {
    if (connection_) connection_->send(protocol::encode_frame(message));
  }

  // What is left of agents ends with the launcher; the last messages still go out.
  void close() {
    signals_.cancel();
    retry_.cancel();
    end_.cancel();
    resolver_.cancel();
    for (const AgentId agent : agents_) launcher_->forget(agent);
    const auto deadline = Clock::now() + (agents_.empty() ? kFlush : options_.grace);
    while (Clock::now() < deadline && (!agents_.empty() || (connection_ && connection_->queued_bytes() > 0))) {
      if (io_.stopped()) io_.restart();
      io_.run_one_until(deadline);
    }
    if (connection_) connection_->close();
  }

  const JoinOptions& options_;
  const std::uint64_t instance_ = random_number();
  std::string name_;  // that the run has given, once it has
  asio::io_context io_{1};
  tcp::resolver resolver_;
  asio::steady_timer retry_;
  asio::steady_timer end_;
  asio::signal_set signals_;
  std::shared_ptr<transport::FrameConnection> connection_;
  std::unique_ptr<Launcher> launcher_;
  std::set<AgentId> agents_;
  Clock::time_point give_up_at_;
  std::optional<int> ended_with_;  // the status of this command once its agents have ended
  std::optional<int> status_;
  bool reported_ = false;
};

}  // namespace

int join_run(const JoinOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  return HostCommand(options).run();
}

}  // namespace elastictrain::launcher
