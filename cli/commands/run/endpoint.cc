#include "cli/commands/run/endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "cli/config/text.h"
#include "launcher/hostfile.h"
#include "launcher/rendezvous/join.h"
#include "launcher/rendezvous/secret.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

struct Address {
  std::string interface;
  std::string text;
  bool is_ipv6 = false;
  bool is_loopback = false;
  bool is_link_local = false;
};

Address from_ipv4(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  const std::uint32_t bits = ntohl(address.s_addr);
  return {.text = text.data(), .is_loopback = (bits >> 24U) == 127, .is_link_local = (bits >> 16U) == 0xA9FE};
}

Address from_ipv6(const in6_addr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  return {.text = text.data(),
          .is_ipv6 = true,
          .is_loopback = IN6_IS_ADDR_LOOPBACK(&address),
          .is_link_local = IN6_IS_ADDR_LINKLOCAL(&address)};
}

std::vector<Address> read_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Address> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) {
      addresses.push_back(from_ipv4(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr));
    } else if (family == AF_INET6) {
      addresses.push_back(from_ipv6(reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr));
    } else {
      continue;
    }
    addresses.back().interface = entry->ifa_name;
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const Address& a, const Address& b) { return a.is_ipv6 < b.is_ipv6; });
  return addresses;
}

}  // namespace

Result<std::vector<std::string>> machine_addresses(const std::string& interface) {
  std::vector<std::string> found;
  bool seen = false;
  for (const Address& address : read_addresses()) {
    const bool wanted = interface.empty() ? !address.is_loopback : address.interface == interface;
    seen = seen || address.interface == interface;
    if (wanted && !address.is_link_local) found.push_back(address.text);
  }
  if (interface.empty() || !found.empty()) return found;
  return Error{ErrorCode::kUnavailable, "network interface " + interface +
                                            (seen ? " has no usable address" : " does not exist") +
                                            "; `ip address` lists the interfaces"};
}

std::vector<std::string> all_addresses() {
  std::vector<std::string> texts;
  for (const Address& address : read_addresses()) texts.push_back(address.text);
  return texts;
}

namespace {

constexpr const char* kSecretFile = "join-secret";  // in the state directory

void say(const std::string& text) {
  std::cerr << "elastictrain: " + text + "\n" << std::flush;
}

Result<std::string> secret_of(const HostsConfig& hosts) {
  std::string set = launcher::take_secret_variable();
  if (!set.empty()) {
    const Status strong = launcher::check_secret(set);
    if (strong.ok()) return set;
    return Error{ErrorCode::kInvalid, std::string(launcher::kSecretVariable) + ": " + strong.error().message};
  }
  if (!hosts.secret_file.empty()) return launcher::read_secret(hosts.secret_file);
  const auto directory = state_directory();
  if (!directory.ok()) return directory.error();
  return launcher::read_or_make_secret(*directory + "/" + kSecretFile);
}

// Those that the endpoint's name has on this machine.
std::vector<std::string> own_addresses_of(const Endpoint& endpoint) {
  asio::io_context io;
  asio::error_code error;
  const auto found = asio::ip::tcp::resolver(io).resolve(endpoint.host, std::to_string(endpoint.port), error);
  const std::vector<std::string> here = all_addresses();
  std::vector<std::string> own;
  for (const auto& entry : found) {
    const std::string address = entry.endpoint().address().to_string();
    const bool is_here =
        entry.endpoint().address().is_loopback() || std::find(here.begin(), here.end(), address) != here.end();
    if (is_here && std::find(own.begin(), own.end(), address) == own.end()) own.push_back(address);
  }
  return own;
}

// A name that leads here through others (a service's) is held on all addresses.
Result<std::vector<std::string>> addresses_to_hold(const Endpoint& endpoint) {
  auto own = own_addresses_of(endpoint);
  if (!own.empty()) return own;
  auto all = machine_addresses("");
  if (all.ok()) all->emplace_back("127.0.0.1");
  return all;
}

Result<Meeting> hold(const RunConfig& config, const Endpoint& endpoint, const transport::Key& key,
                     std::vector<std::string> addresses) {
  Meeting meeting;
  launcher::RendezvousOptions options;
  options.addresses = std::move(addresses);
  options.port = endpoint.port;
  options.key = key;
  options.own = {this_machine(config.hosts)};
  options.say = say;
  auto opened = launcher::Rendezvous::open(*meeting.io, std::move(options));
  if (!opened.ok()) return opened.error();
  meeting.rendezvous = std::move(*opened);
  return meeting;
}

int offer_to(const RunConfig& config, const Endpoint& endpoint, const transport::Key& key) {
  launcher::JoinOptions options;
  options.endpoint_host = endpoint.host;
  options.port = endpoint.port;
  options.key = key;
  const launcher::Host host = this_machine(config.hosts);
  options.host = host.name;
  options.slots = host.slots;
  options.patience = std::chrono::milliseconds(config.hosts.join_timeout_ms);
  options.grace = std::chrono::milliseconds(config.timeouts.grace_ms);
  options.say = say;
  return launcher::join_run(options);
}

struct Meant {
  Endpoint endpoint;
  transport::Key key{};
};

Result<Meant> meant(const RunConfig& config) {
  auto endpoint = parse_endpoint(config.hosts.endpoint);
  if (!endpoint.ok()) return endpoint.error();
  const auto secret = secret_of(config.hosts);
  if (!secret.ok()) return Error{ErrorCode::kInvalid, secret.error().message};
  return Meant{std::move(*endpoint), launcher::rendezvous_key(*secret, config.name)};
}

}  // namespace

launcher::Host this_machine(const HostsConfig& hosts) {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && launcher::is_host_name(name.data());
  return {is_known ? name.data() : "localhost", static_cast<std::uint32_t>(std::max<std::uint64_t>(1, hosts.slots))};
}

Result<Meeting> hold_endpoint(const RunConfig& config) {
  const auto run = meant(config);
  if (!run.ok()) return run.error();
  auto addresses = addresses_to_hold(run->endpoint);
  if (!addresses.ok()) return addresses.error();
  return hold(config, run->endpoint, run->key, std::move(*addresses));
}

Result<std::variant<Meeting, int>> meet(const RunConfig& config) {
  using Met = std::variant<Meeting, int>;
  if (config.hosts.endpoint_role == EndpointRole::kHold) {
    auto held = hold_endpoint(config);
    return held.ok() ? Result<Met>(std::move(*held)) : Result<Met>(held.error());
  }
  const auto run = meant(config);
  if (!run.ok()) return run.error();
  auto own = own_addresses_of(run->endpoint);
  if (config.hosts.endpoint_role == EndpointRole::kAuto && !own.empty()) {
    auto held = hold(config, run->endpoint, run->key, std::move(own));
    // Another command of this machine holds it.
    if (held.ok() || held.error().code != ErrorCode::kUnavailable) {
      return held.ok() ? Result<Met>(std::move(*held)) : Result<Met>(held.error());
    }
  }
  return Met(offer_to(config, run->endpoint, run->key));
}

}  // namespace elastictrain::cli
