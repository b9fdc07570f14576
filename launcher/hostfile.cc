#include "launcher/hostfile.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>

namespace elastictrain::launcher {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string printed(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 80)) shown += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return shown;
}

std::string quoted(std::string_view text) {
  return "\"" + printed(text) + "\"";
}

Error bad(const std::string& what) {
  return {ErrorCode::kInvalid, what};
}

Result<std::uint32_t> parse_slots(std::string_view digits) {
  std::uint32_t slots = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  const bool is_number = code == std::errc{} && end == digits.data() + digits.size();
  if (is_number && slots >= 1 && slots <= kMaxSlotsPerHost) return slots;
  return bad("slots must be a number from 1 to " + std::to_string(kMaxSlotsPerHost) + ", not " + quoted(digits));
}

// The user is one setting for all hosts, or ssh's own for each.
Error no_host_name(std::string_view name) {
  const std::string what = quoted(name) + " is not a host name";
  const auto at = name.find('@');
  if (at == std::string_view::npos || at == 0 || !is_host_name(name.substr(at + 1))) return bad(what);
  const std::string user(name.substr(0, at));
  return bad(what + "; leave out the user, and name it once: --ssh-user " + printed(user) +
             " (launcher.ssh_user), or for each host in ~/.ssh/config");
}

Result<Host> make_host(std::string_view name, std::string_view slots) {
  if (!is_host_name(name)) return no_host_name(name);
  Host host{std::string(name), 1};
  if (slots.empty()) return host;
  auto count = parse_slots(slots);
  if (!count) return count.error();
  host.slots = *count;
  return host;
}

Result<Host> parse_bracketed(std::string_view word) {
  const auto close = word.find(']');
  if (close == std::string_view::npos) return bad("missing ] in " + quoted(word));
  const auto name = word.substr(1, close - 1);
  const auto rest = word.substr(close + 1);
  if (rest.empty()) return make_host(name, {});
  if (rest.size() < 2 || rest.front() != ':') return bad("expected :slots after ] in " + quoted(word));
  return make_host(name, rest.substr(1));
}

// `host`, `host:4`, `[v6]:4`, or a bare IPv6 address (more than one colon).
Result<Host> parse_word(std::string_view word) {
  if (word.empty()) return bad("a host name is missing");
  if (word.front() == '[') return parse_bracketed(word);
  const auto colon = word.find(':');
  if (colon == std::string_view::npos || word.find(':', colon + 1) != std::string_view::npos) {
    return make_host(word, {});
  }
  if (colon + 1 == word.size()) return bad("slots are missing after the colon in " + quoted(word));
  return make_host(word.substr(0, colon), word.substr(colon + 1));
}

// The fields that may follow a host's name; max_slots is Open MPI's and is not needed here.
Status apply_attribute(std::string_view word, Host& host) {
  if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) return {};
  if (word.starts_with("job=") && is_host_name(word.substr(4))) {
    host.job = word.substr(4);
    return {};
  }
  if (!word.starts_with("slots=")) return bad(quoted(word) + " is not known; write slots=N");
  auto slots = parse_slots(word.substr(6));
  if (!slots) return slots.error();
  host.slots = *slots;
  return {};
}

std::string_view next_word(std::string_view& text) {
  text = trim(text);
  const auto end = std::min(text.find_first_of(" \t"), text.size());
  const auto word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

Result<Host> parse_line(std::string_view line) {
  auto host = parse_word(next_word(line));
  if (!host) return host;
  for (auto word = next_word(line); !word.empty(); word = next_word(line)) {
    const Status status = apply_attribute(word, *host);
    if (!status) return status.error();
  }
  return host;
}

// Hosts in the order in which they are named first; a host that is named again has the slots of both.
class HostCollection {
 public:
  Status add(Host host) {
    const auto [place, is_new] = places_.try_emplace(host.name, hosts_.size());
    if (is_new) {
      hosts_.push_back(std::move(host));
      return {};
    }
    Host& same = hosts_[place->second];
    same.slots += host.slots;
    if (same.slots <= kMaxSlotsPerHost) return {};
    return bad("host " + quoted(std::string_view(same.name)) + " has more than " + std::to_string(kMaxSlotsPerHost) +
               " slots in total");
  }
  std::vector<Host> take() && { return std::move(hosts_); }

 private:
  std::vector<Host> hosts_;
  std::unordered_map<std::string, std::size_t> places_;
};

std::string_view without_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

std::string_view take_until(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const auto part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& where) {
  HostCollection hosts;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto line = without_comment(take_until(text, '\n'));
    if (line.empty()) continue;
    const auto at_line = [&](const Error& error) {
      return bad(where + ":" + std::to_string(number) + ": " + error.message);
    };
    auto host = parse_line(line);
    if (!host) return at_line(host.error());
    const Status status = hosts.add(std::move(*host));
    if (!status) return at_line(status.error());
  }
  return std::move(hosts).take();
}

std::string hostfile_text(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) {
    text += host.name + " slots=" + std::to_string(host.slots) + (host.job.empty() ? "" : " job=" + host.job) + "\n";
  }
  return text;
}

Result<std::vector<Host>> parse_host_list(std::string_view list) {
  HostCollection hosts;
  if (trim(list).empty()) return bad("the host list is empty; write host:slots,host:slots");
  for (bool more = true; more;) {
    more = list.find(',') != std::string_view::npos;
    auto host = parse_word(trim(take_until(list, ',')));
    if (!host) return bad("in the host list: " + host.error().message);
    const Status status = hosts.add(std::move(*host));
    if (!status) return bad("in the host list: " + status.error().message);
  }
  return std::move(hosts).take();
}

}  // namespace elastictrain::launcher
