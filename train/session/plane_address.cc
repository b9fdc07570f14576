#include "train/session/plane_address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "train/comm/keyed_hash.h"

namespace elastictrain::session {
namespace {

constexpr std::string_view kPurpose = "elastictrain plane";

// Up to the end of its line, which goes.
std::optional<std::string_view> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

bool is_one_line(std::string_view text) {
  return text.find('\n') == std::string_view::npos && text.find('\0') == std::string_view::npos;
}

}  // namespace

// Lines: port, host key, name of the Unix socket, addresses; then zeros.
std::optional<std::vector<std::byte>> write_endpoint(const protocol::Endpoint& endpoint, std::size_t bytes) {
  std::string text = std::to_string(endpoint.port) + '\n' + endpoint.host_key + '\n' + endpoint.unix_name + '\n';
  if (!is_one_line(endpoint.host_key) || !is_one_line(endpoint.unix_name)) return std::nullopt;
  for (const auto& address : endpoint.addresses) {
    if (!is_one_line(address)) return std::nullopt;
    text += address + '\n';
  }
  if (text.size() > bytes) return std::nullopt;
  std::vector<std::byte> block(bytes);
  std::memcpy(block.data(), text.data(), text.size());
  return block;
}

std::optional<protocol::Endpoint> read_endpoint(std::span<const std::byte> block) {
  std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
  text = text.substr(0, text.find('\0'));
  const auto port = take_line(text);
  const auto host_key = take_line(text);
  const auto unix_name = take_line(text);
  if (!port || !host_key || !unix_name) return std::nullopt;
  protocol::Endpoint endpoint;
  const auto [end, error] = std::from_chars(port->data(), port->data() + port->size(), endpoint.port);
  if (error != std::errc() || end != port->data() + port->size() || endpoint.port == 0) return std::nullopt;
  endpoint.host_key = *host_key;
  endpoint.unix_name = *unix_name;
  while (const auto address = take_line(text)) endpoint.addresses.emplace_back(*address);
  if (endpoint.addresses.empty() || !text.empty()) return std::nullopt;
  return endpoint;
}

Token plane_token(const Token& of_generation, std::uint32_t index) {
  std::array<std::uint8_t, 4> number{};
  for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<std::uint8_t>(index >> (8 * i));
  const auto mac = comm::keyed_hash(std::as_bytes(std::span(of_generation)),
                                    {std::as_bytes(std::span(kPurpose)), std::as_bytes(std::span(number))});
  Token token{};
  std::memcpy(token.data(), mac.data(), token.size());
  return token;
}

}  // namespace elastictrain::session
