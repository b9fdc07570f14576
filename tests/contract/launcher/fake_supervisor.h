// Purpose: the supervisor's side of real agents for tests: a TLS listener that records the agents' messages, sends
// heartbeats and sends the messages that the test asks for. Thread: the test's; pump() runs the loop until a condition
// holds or the time is up.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/transport/frame_connection.h"
#include "tests/slowdown.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::testing {

using namespace protocol;

inline constexpr std::chrono::seconds kPatience{20 * kSlowdown};

using test::contains;

// Running, and not a zombie that another process has still to reap.
inline bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(file, text) && !contains(text, ") Z ");
}

using test::TemporaryDirectory;

class FakeSupervisor {
 public:
  struct Agent {
    std::shared_ptr<transport::FrameConnection> connection;
    std::vector<AgentUp> messages;
    bool closed = false;
    std::uint64_t acknowledged_report = 0;
  };

  explicit FakeSupervisor(asio::io_context& io) : io_(io), heartbeat_(io), key_(transport::make_key()) {
    open(0);
    send_heartbeats();
  }

  void open(std::uint16_t port) {
    transport::ListenOptions options;
    options.port = port;
    auto listener = transport::listen(
        io_, options, key_, [this](std::shared_ptr<transport::FrameConnection> c) { accepted(std::move(c)); },
        [](const std::string&, const std::string&) {});
    REQUIRE(listener.ok());
    listener_ = std::move(*listener);
    port_ = listener_->port();
  }

  void stop_listening() { listener_->stop(); }

  AgentBootstrap bootstrap(AgentId agent, std::uint64_t orphan_grace_ms = 60'000) const {
    AgentBootstrap start;
    start.protocol_version = limits::kProtocolVersion;
    start.run_name = "test";
    start.agent = agent;
    start.host = "here";
    start.addresses = {"127.0.0.1"};
    start.port = port_;
    start.key = key_;
    start.connect_timeout_ms = 5'000;
    start.heartbeat_ms = 50;
    start.worker_dead_ms = 3'000;
    start.orphan_grace_ms = orphan_grace_ms;
    start.grace_ms = 500;
    return start;
  }

  const transport::Key& key() const { return key_; }
  std::uint16_t port() const { return port_; }
  std::vector<std::shared_ptr<Agent>> agents;
  bool silent = false;       // no heartbeats
  bool acknowledges = true;  // heartbeats carry the number of the last report received

  // Runs the loop until `condition` holds. Returns false on a time-out.
  bool pump(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  void send(std::size_t agent, const AgentDown& message) { agents.at(agent)->connection->send(encode_frame(message)); }

  // The messages of one kind that this connection has received.
  template <class T>
  std::vector<T> all(std::size_t agent) const {
    std::vector<T> found;
    if (agent >= agents.size()) return found;
    for (const auto& message : agents[agent]->messages) {
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }

  template <class T>
  bool await(std::size_t agent, std::size_t count = 1) {
    return pump([&] { return all<T>(agent).size() >= count; });
  }

  std::vector<std::string> lines(std::size_t agent, WorkerId worker, bool is_stderr = false) const {
    std::vector<std::string> found;
    for (const auto& output : all<WorkerOutput>(agent)) {
      if (output.worker != worker || output.is_stderr != is_stderr) continue;
      found.insert(found.end(), output.lines.begin(), output.lines.end());
    }
    return found;
  }

  bool await_line(std::size_t agent, WorkerId worker, const std::string& part, bool is_stderr = false) {
    return pump([&] {
      const auto seen = lines(agent, worker, is_stderr);
      return std::any_of(seen.begin(), seen.end(), [&](const std::string& line) { return contains(line, part); });
    });
  }

 private:
  void send_heartbeats() {
    for (const auto& agent : agents) {
      if (agent->closed || silent) continue;
      const SupervisorHeartbeat heartbeat{++heartbeats_, acknowledges ? agent->acknowledged_report : 0};
      agent->connection->send(encode_frame(AgentDown(heartbeat)));
    }
    heartbeat_.expires_after(std::chrono::milliseconds(50));
    heartbeat_.async_wait([this](const asio::error_code& error) {
      if (!error) send_heartbeats();
    });
  }

  void accepted(std::shared_ptr<transport::FrameConnection> connection) {
    auto agent = std::make_shared<Agent>();
    agent->connection = connection;
    agents.push_back(agent);
    // The connection keeps its handlers.
    connection->start(
        [seen = std::weak_ptr(agent)](const std::string& body) {
          const auto known = seen.lock();
          if (!known) return;
          auto message = decode_body<AgentUp>(body);
          REQUIRE(message.ok());
          if (const auto* report = std::get_if<AgentReport>(&*message)) known->acknowledged_report = report->sequence;
          known->messages.push_back(std::move(*message));
        },
        [seen = std::weak_ptr(agent)](const Error&) {
          if (const auto known = seen.lock()) known->closed = true;
        });
  }

  asio::io_context& io_;
  asio::steady_timer heartbeat_;
  std::uint64_t heartbeats_ = 0;
  transport::Key key_;
  std::unique_ptr<transport::Listener> listener_;
  std::uint16_t port_ = 0;
};

}  // namespace elastictrain::testing
