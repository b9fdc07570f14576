#include "cli/commands/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>

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

}  // namespace elastictrain::cli
