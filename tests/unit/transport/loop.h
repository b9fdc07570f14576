// Purpose: drives an io_context in a test until something has happened, with a deadline that fails the test.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/wire.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::transport {

inline bool run_until(asio::io_context& io, const std::function<bool()>& happened,
                      std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!happened()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (io.stopped()) io.restart();
    io.run_one_for(std::chrono::milliseconds(20));
  }
  return true;
}

inline std::string frame_of(const std::string& body) {
  std::string frame(protocol::kFrameHeaderBytes, '\0');
  protocol::wire::put_length(frame.data(), body.size());
  return frame + body;
}

// A listener and all of its events.
struct TestServer {
  explicit TestServer(asio::io_context& context) : io(context), key(make_key()) {}

  void open(ListenOptions options = {}) {
    auto listening = listen(
        io, options, key, [this](std::shared_ptr<FrameConnection> c) { accept(std::move(c)); },
        [this](std::string address, std::string reason) {
          rejected.emplace_back(std::move(address), std::move(reason));
        });
    listener = std::move(listening).value();
  }

  void accept(std::shared_ptr<FrameConnection> connection) {
    connections.push_back(connection);
    connection->start(
        [this](std::string body) {
          received.push_back(std::move(body));
          if (on_frame) on_frame();
        },
        [this](Error error) { closed.push_back(error.message); });
  }

  asio::io_context& io;
  Key key;
  std::function<void()> on_frame;
  std::unique_ptr<Listener> listener;
  std::vector<std::shared_ptr<FrameConnection>> connections;
  std::vector<std::string> received;
  std::vector<std::string> closed;
  std::vector<std::pair<std::string, std::string>> rejected;
};

// One connect() and all of its events.
struct TestClient {
  explicit TestClient(asio::io_context& context) : io(context) {}

  void connect_to(std::vector<std::string> addresses, std::uint16_t port, const Key& key,
                  std::chrono::milliseconds timeout = std::chrono::seconds(10), ConnectionLimits limits = {}) {
    connect(io, std::move(addresses), port, key, timeout, limits,
            [this](Result<std::shared_ptr<FrameConnection>> result) {
              ++answers;
              if (!result.ok()) {
                error = result.error();
                return;
              }
              connection = std::move(result).value();
              connection->start([this](std::string body) { received.push_back(std::move(body)); },
                                [this](Error why) { closed.push_back(why.message); });
            });
  }

  asio::io_context& io;
  int answers = 0;
  std::shared_ptr<FrameConnection> connection;
  Error error;
  std::vector<std::string> received;
  std::vector<std::string> closed;
};

}  // namespace elastictrain::transport
