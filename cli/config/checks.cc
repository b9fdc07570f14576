#include "cli/config/checks.h"

#include <arpa/inet.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>
#include <cctype>
#include <charconv>
#include <csignal>
#include <string>
#include <utility>

#include "cli/config/label.h"
#include "cli/config/text.h"
#include "heuristics/policy/policy.h"
#include "heuristics/registry/registry.h"
#include "launcher/hostfile.h"

namespace elastictrain::cli {

Result<Endpoint> parse_endpoint(const std::string& text) {
  const Error wrong{ErrorCode::kInvalid, "'" + text + "' is not HOST:PORT"};
  Endpoint endpoint;
  std::string port;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string::npos) return wrong;
    endpoint.host = text.substr(1, end - 1);
    if (end + 1 < text.size() && text[end + 1] != ':') return wrong;
    port = end + 1 < text.size() ? text.substr(end + 2) : "";
  } else {
    const bool has_port = std::count(text.begin(), text.end(), ':') == 1;
    endpoint.host = has_port ? text.substr(0, text.find(':')) : text;
    port = has_port ? text.substr(text.find(':') + 1) : "";
  }
  if (!launcher::is_host_name(endpoint.host)) return wrong;
  if (port.empty()) return text.back() == ':' ? Result<Endpoint>(wrong) : Result<Endpoint>(endpoint);
  const auto number = parse_whole_number(port);
  if (!number || *number == 0 || *number > 65535) return wrong;
  endpoint.port = static_cast<std::uint16_t>(*number);
  return endpoint;
}

bool is_loopback(const Endpoint& endpoint) {
  asio::error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  return endpoint.host == "localhost" || (!error && address.is_loopback());
}

Result<ListenAddress> parse_listen(std::string_view text) {
  ListenAddress parsed;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view address = text.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
    parsed.address = address;
  }
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.begin(), port.end(), parsed.port);
  if (error == std::errc() && end == port.end() && check_address(parsed.address).ok()) return parsed;
  return Error{ErrorCode::kInvalid, "'" + std::string(text) +
                                        "' is not a port, or a numeric address and a port, as in 9400, 0.0.0.0:9400 "
                                        "or [::]:9400"};
}

namespace {

constexpr std::size_t kMaxNameLength = 64;

constexpr std::pair<std::string_view, int> kSignals[] = {{"USR1", SIGUSR1},  {"USR2", SIGUSR2}, {"ABRT", SIGABRT},
                                                         {"ALRM", SIGALRM},  {"TSTP", SIGTSTP}, {"CONT", SIGCONT},
                                                         {"WINCH", SIGWINCH}};

Error wrong(std::string_view text, const std::string& what) {
  return {ErrorCode::kInvalid, "'" + std::string(text) + "' " + what};
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_variable_name(std::string_view text) {
  const auto good = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), good);
}

}  // namespace

Status check_name(std::string_view text) {
  const bool good = !text.empty() && text.size() <= kMaxNameLength && text[0] != '-' && text[0] != '.' &&
                    std::all_of(text.begin(), text.end(), is_name_character);
  if (good) return {};
  return wrong(text, "is not a name; use up to 64 letters, digits, '-', '_' and '.', and begin with a letter or digit");
}

Status check_set(std::string_view text) {
  return trim(text).empty() ? Status(wrong(text, "must not be empty")) : Status();
}

Status check_module(std::string_view text) {
  bool good = true;
  for (std::string_view rest = text; good;) {
    const std::size_t dot = rest.find('.');
    good = is_variable_name(rest.substr(0, dot));
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  return good ? Status()
              : Status(wrong(text, "is not the name of a Python module, such as torch or my_package.models"));
}

Status check_word(std::string_view text) {
  const bool odd = text.empty() || text[0] == '-' || text.find_first_of(" \t\r\n") != std::string_view::npos;
  return odd ? Status(wrong(text, "must not contain spaces or begin with '-'")) : Status();
}

Status check_host(std::string_view text) {
  if (const Status word = check_word(text); !word.ok()) return word;
  const auto hosts = launcher::parse_host_list(text);
  return hosts.ok() ? Status() : Status(hosts.error());
}

Status check_endpoint(std::string_view text) {
  if (text.empty()) return {};
  const auto endpoint = parse_endpoint(std::string(text));
  return endpoint.ok() ? Status() : Status(endpoint.error());
}

Status check_address(std::string_view text) {
  unsigned char buffer[sizeof(in6_addr)];
  const std::string address(text);
  if (inet_pton(AF_INET, address.c_str(), buffer) == 1 || inet_pton(AF_INET6, address.c_str(), buffer) == 1) return {};
  return wrong(text, "is not a numeric IPv4 or IPv6 address");
}

Status check_listen(std::string_view text) {
  const auto parsed = parse_listen(text);
  return parsed.ok() ? Status() : Status(parsed.error());
}

int signal_number(std::string_view name) {
  if (name.substr(0, 3) == "SIG") name.remove_prefix(3);
  for (const auto& [known, number] : kSignals) {
    if (known == name || std::to_string(number) == name) return number;
  }
  return 0;
}

Status check_signal(std::string_view text) {
  if (text == "none" || signal_number(text) != 0) return {};
  return wrong(text, "is not a signal that can be forwarded; use USR1, USR2, ABRT, ALRM, TSTP, CONT, WINCH or none");
}

Status check_label(std::string_view text) {
  const auto label = Label::parse(text);
  return label.ok() ? Status() : Status(label.error());
}

Status check_ranks(std::string_view text) {
  const auto ranks = RankSet::parse(text);
  return ranks.ok() ? Status() : Status(ranks.error());
}

Status check_variable_pattern(std::string_view text) {
  const std::string_view name = text.ends_with('*') ? text.substr(0, text.size() - 1) : text;
  return is_variable_name(name) ? Status() : Status(wrong(text, "is not the name of a variable (NAME or NAME*)"));
}

Status check_assignment(std::string_view text) {
  const std::size_t equals = text.find('=');
  const bool good = equals != std::string_view::npos && is_variable_name(text.substr(0, equals));
  return good ? Status() : Status(wrong(text, "is not an assignment; write NAME=value"));
}

Status check_policy(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& policy : heuristics::policies()) {
    if (policy.name == "stragglers") continue;  // [stragglers], beside one of these
    if (policy.name == text) return {};
    names.push_back(policy.name);
  }
  const auto meant = closest(text, names);
  return wrong(text, "is not a policy; the policies are " + join(names, ", ") +
                         (meant ? "; did you mean \"" + *meant + "\"?" : std::string()));
}

Status check_companion(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& policy : heuristics::policies()) {
    if (policy.decides_size || policy.name == "stragglers") continue;
    if (policy.name == text) return {};
    names.push_back(policy.name);
  }
  const auto* other = heuristics::find_policy(std::string(text));
  return wrong(text, std::string(other != nullptr ? "decides on the size" : "is not a policy") +
                         "; policy.beside accepts " + join(names, ", "));
}

Status check_host_class(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  const std::string price(equals == std::string_view::npos ? "" : text.substr(equals + 1));
  double amount = -1;
  const auto [end, error] = std::from_chars(price.data(), price.data() + price.size(), amount);
  const bool good = equals != 0 && !price.empty() && error == std::errc() && end == price.data() + price.size() &&
                    amount >= 0 && amount <= 1e9;
  return good ? Status()
              : Status(wrong(text, "is not a host pattern with its price per worker and hour; write gpu-*=2.5"));
}

}  // namespace elastictrain::cli
