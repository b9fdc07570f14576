// Purpose: NCCL's RAS service of the workers of a host: a port reserved for each worker's service, and the client
// that asks one of them for its report. The report is parsed in ras_report.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

// A TCP port of an address of this host that is free now and stays reserved for a program that binds it with
// SO_REUSEPORT, as NCCL's RAS service does: no other program gets it, and several runs of a host never collide.
//
// Ownership: the port is released with the object. Thread: any. Errors: take() reports why there is none.

namespace elastictrain::launcher {

class ReservedPort {
 public:
  // Of a numeric address; without one, of the loopback address.
  static Result<ReservedPort> take(const std::string& address = "127.0.0.1");
  ReservedPort() = default;
  ReservedPort(ReservedPort&& other) noexcept;
  ReservedPort& operator=(ReservedPort&& other) noexcept;
  ~ReservedPort();

  std::uint16_t number() const { return number_; }  // 0: none
  // "127.0.0.1:40123", "[::1]:40123"
  const std::string& address() const { return address_; }

 private:
  int socket_ = -1;  // bound, never listening: connections are refused until the program listens
  std::uint16_t number_ = 0;
  std::string address_;
};

// Asks NCCL's RAS service of this host for its report.
//
// Each process with a communicator has such a service, and each service collects from all processes: the first one that
// answers suffices. A port without a listener, and a process that accepts the connection and stays silent (it is
// stopped), cost little before the next one is tried.
// Ownership: keeps itself alive until `done` has been called, once, within the time limit. Thread: the io_context's
// thread, never blocked. Errors: in the answer.
// Source: the text protocol of ncclras, NCCL 2.24 to 2.30 (src/ras/client.cc).

struct RasAnswer {
  bool connected = false;  // a process listens at one of the ports
  bool complete = false;   // the service has sent everything and closed the connection
  std::string text;        // bounded
};

// The answer in plain text; nothing if no service runs.
std::vector<std::string> explain_ras_answer(const RasAnswer& answer, std::chrono::milliseconds time_limit);

class RasClient : public std::enable_shared_from_this<RasClient> {
 public:
  using Done = std::function<void(RasAnswer)>;

  // `ports` of the loopback address, tried in this order.
  static void start(asio::io_context& io, std::vector<std::uint16_t> ports, std::chrono::milliseconds time_limit,
                    Done done);

  RasClient(asio::io_context& io, std::vector<std::uint16_t> ports, Done done)
      : socket_(io), deadline_(io), silence_(io), ports_(std::move(ports)), done_(std::move(done)) {}

 private:
  void begin(std::chrono::milliseconds time_limit);
  void try_next();
  void connected(std::size_t attempt);
  void read(std::size_t attempt);
  void finish();

  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  asio::steady_timer silence_;
  std::chrono::milliseconds patience_{0};
  std::vector<std::uint16_t> ports_;
  std::size_t attempts_ = 0;
  std::array<char, 4096> block_{};
  RasAnswer answer_;
  Done done_;
};

}  // namespace elastictrain::launcher
