// Queries to NCCL's RAS service: a listener that answers, one that is silent, one with another protocol, and none.
#include "launcher/agent/ras_client.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <optional>
#include <thread>

namespace elastictrain::launcher {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerPatience{20'000};

// Listens at a reserved port as NCCL does, with SO_REUSEPORT, and answers each connection with the same text.
class Service {
 public:
  Service(asio::io_context& io, std::uint16_t port, std::string text, bool closes)
      : acceptor_(io), text_(std::move(text)), closes_(closes) {
    acceptor_.open(tcp::v4());
    const int yes = 1;
    REQUIRE(::setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) == 0);
    acceptor_.bind({asio::ip::address_v4::loopback(), port});
    acceptor_.listen();
    accept();
  }
  std::string received;

 private:
  struct Talk {
    explicit Talk(tcp::socket connection) : socket(std::move(connection)) {}
    tcp::socket socket;
    std::array<char, 256> block{};
  };

  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket connection) {
      if (error) return;
      const auto talk = std::make_shared<Talk>(std::move(connection));
      talks_.push_back(talk);
      talk->socket.async_read_some(asio::buffer(talk->block), [this, talk](const asio::error_code&, std::size_t count) {
        received.append(talk->block.data(), count);
        asio::async_write(talk->socket, asio::buffer(text_), [this, talk](const asio::error_code&, std::size_t) {
          if (closes_) talk->socket.close();
        });
      });
      accept();
    });
  }

  tcp::acceptor acceptor_;
  std::string text_;
  bool closes_;
  std::vector<std::shared_ptr<Talk>> talks_;
};

std::uint16_t reserve(std::vector<ReservedPort>& ports) {
  auto port = ReservedPort::take();
  REQUIRE(port.ok());
  ports.push_back(std::move(*port));
  return ports.back().number();
}

RasAnswer ask(asio::io_context& io, const std::vector<std::uint16_t>& ports, milliseconds limit) {
  std::optional<RasAnswer> answer;
  RasClient::start(io, ports, limit, [&](RasAnswer got) {
    CHECK_FALSE(answer.has_value());
    answer = std::move(got);
    io.stop();
  });
  io.run_for(kAnswerPatience);
  REQUIRE(answer.has_value());
  return *answer;
}

TEST_CASE("a reserved port is exclusive, and refuses until the program listens") {
  std::vector<ReservedPort> ports;
  for (int i = 0; i < 100; ++i) reserve(ports);
  std::vector<std::uint16_t> numbers;
  for (const auto& port : ports) numbers.push_back(port.number());
  std::sort(numbers.begin(), numbers.end());
  CHECK(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end());
  asio::io_context io;
  CHECK_FALSE(ask(io, {numbers[0], numbers[1]}, kAnswerPatience).connected);
}

TEST_CASE("the service is asked in its protocol, and its report is read to the end") {
  asio::io_context io;
  std::vector<ReservedPort> ports;
  const auto unused = reserve(ports);
  Service service(io, reserve(ports), "SERVER PROTOCOL 2\nOK\nNCCL version 2.28.9\n", true);
  const RasAnswer answer = ask(io, {unused, ports[1].number()}, kAnswerPatience);
  CHECK(answer.complete);
  CHECK(answer.text.ends_with("NCCL version 2.28.9\n"));
  CHECK(service.received == "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n");
  CHECK(explain_ras_answer(answer, kAnswerPatience) == std::vector<std::string>{"NCCL 2.28.9 says:"});
}

TEST_CASE("a silent listener is skipped for the next one") {
  asio::io_context io;
  std::vector<ReservedPort> ports;
  Service stopped(io, reserve(ports), "", false);
  Service service(io, reserve(ports), "NCCL version 2.28.9\n", true);
  const RasAnswer answer = ask(io, {ports[0].number(), ports[1].number()}, milliseconds(3'000));
  CHECK(answer.complete);
  CHECK(answer.text == "NCCL version 2.28.9\n");
}

TEST_CASE("silence of all ends at the limit and is reported") {
  asio::io_context io;
  std::vector<ReservedPort> ports;
  Service stopped(io, reserve(ports), "", false);
  const RasAnswer answer = ask(io, {ports[0].number()}, milliseconds(200));
  CHECK(answer.connected);
  CHECK(explain_ras_answer(answer, milliseconds(200)) ==
        std::vector<std::string>{"NCCL's RAS service did not answer within 200.0 ms"});
}

TEST_CASE("a truncated report is passed on as far as it goes") {
  asio::io_context io;
  std::vector<ReservedPort> ports;
  Service slow(io, reserve(ports), "NCCL version 2.28.9\n", false);
  const auto lines = explain_ras_answer(ask(io, {ports[0].number()}, milliseconds(300)), milliseconds(300));
  REQUIRE(lines.size() == 2);
  CHECK(lines[1] == "the report is incomplete: not all processes answered NCCL within 300.0 ms");
}

TEST_CASE("another service at the port is reported, and its bytes are bounded") {
  asio::io_context io;
  std::vector<ReservedPort> ports;
  Service other(io, reserve(ports), std::string(2 << 20, 'x'), true);
  const RasAnswer answer = ask(io, {ports[0].number()}, kAnswerPatience);
  CHECK(answer.text.size() < (300 << 10));
  CHECK(explain_ras_answer(answer, kAnswerPatience) ==
        std::vector<std::string>{"the answer at the port of NCCL's RAS service is not from that service"});
}

TEST_CASE("without a service nothing is reported") {
  asio::io_context io;
  CHECK(explain_ras_answer(ask(io, {}, kAnswerPatience), kAnswerPatience).empty());
}

}  // namespace
}  // namespace elastictrain::launcher
