#include "supervisor/master_address.h"

#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>

namespace elastictrain {
namespace {

constexpr const char* kLocal = "127.0.0.1";

std::string without_port(const std::string& endpoint) {
  const std::string address = endpoint.substr(0, endpoint.rfind(':'));
  if (address.size() < 2 || address.front() != '[') return address;
  return address.substr(1, address.size() - 2);
}

bool is_loopback(const std::string& address) {
  asio::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return error || parsed.is_loopback();
}

}  // namespace

std::string master_address(const AgentTable& agents, AgentId first) {
  const transport::FrameConnection* connection = agents.connection_of(first);
  if (connection == nullptr) return kLocal;
  if (const std::string remote = without_port(connection->remote_address()); !is_loopback(remote)) return remote;
  // Rank 0 is on this machine: the other hosts can use our address by which they reached us.
  for (AgentId agent : agents.connected()) {
    const transport::FrameConnection* other = agents.connection_of(agent);
    if (!is_loopback(without_port(other->remote_address()))) return other->local_address();
  }
  return kLocal;
}

std::uint16_t find_free_port() {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io);
  asio::error_code error;
  acceptor.open(asio::ip::tcp::v4(), error);
  if (!error) acceptor.bind({asio::ip::tcp::v4(), 0}, error);
  const auto endpoint = acceptor.local_endpoint(error);
  return error ? 0 : endpoint.port();
}

}  // namespace elastictrain
