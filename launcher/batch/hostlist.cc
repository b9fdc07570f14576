#include "launcher/batch/hostlist.h"

#include <algorithm>
#include <charconv>

#include "launcher/hostfile.h"

namespace elastictrain::launcher {
namespace {

// Number of hosts times length of names: an expansion within both limits is small.
constexpr std::size_t kMaxTextBytes = 4 << 20;
constexpr std::size_t kMaxDigits = 9;
constexpr std::size_t kMaxNameBytes = 253;

Error bad(std::string_view what, std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 80)) shown += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return {ErrorCode::kInvalid, std::string(what) + " in \"" + shown + "\""};
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

Result<std::uint32_t> read_number(std::string_view digits) {
  std::uint32_t value = 0;
  const bool all =
      !digits.empty() && digits.size() <= kMaxDigits && std::all_of(digits.begin(), digits.end(), is_digit);
  if (!all) return bad("not a number of at most nine digits", digits);
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string padded(std::uint32_t value, std::size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

Error too_many(std::string_view text) {
  return bad("more than " + std::to_string(kMaxAllocatedHosts) + " hosts", text);
}

// "1-3" or "07": a range keeps the width of its first number where that has leading zeros.
Status add_range(std::string_view range, std::vector<std::string>& endings) {
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const auto low = read_number(low_text);
  if (!low) return low.error();
  const auto high = dash == std::string_view::npos ? low : read_number(range.substr(dash + 1));
  if (!high) return high.error();
  if (*high < *low) return bad("a range that runs backwards", range);
  if (std::size_t{*high} - *low >= kMaxAllocatedHosts - endings.size()) return too_many(range);
  const std::size_t width = low_text.front() == '0' ? low_text.size() : 0;
  for (std::uint32_t value = *low; value <= *high; ++value) endings.push_back(padded(value, width));
  return {};
}

Result<std::vector<std::string>> expand_bracket(std::string_view ranges) {
  std::vector<std::string> endings;
  if (ranges.empty()) return bad("empty brackets", ranges);
  for (bool more = true; more;) {
    more = ranges.find(',') != std::string_view::npos;
    const Status added = add_range(take_until(ranges, ','), endings);
    if (!added) return added.error();
  }
  return endings;
}

// Every name so far with every suffix; the last number varies fastest.
Result<std::vector<std::string>> multiply(const std::vector<std::string>& names,
                                          const std::vector<std::string>& endings, std::string_view word) {
  if (names.size() * endings.size() > kMaxAllocatedHosts) return too_many(word);
  std::vector<std::string> all;
  all.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings) all.push_back(name + ending);
  }
  return all;
}

// One item of the list: text and brackets in turn.
Result<std::vector<std::string>> expand_word(const std::string_view word) {
  std::vector<std::string> names{""};
  for (std::string_view rest = word; !rest.empty();) {
    const std::size_t open = std::min(rest.find('['), rest.size());
    if (names.front().size() + open > kMaxNameBytes) return bad("an item that is too long for a host name", word);
    for (std::string& name : names) name += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("a bracket that is not closed", word);
    const auto endings = expand_bracket(rest.substr(1, close - 1));
    if (!endings) return bad(endings.error().message, word);
    auto longer = multiply(names, *endings, word);
    if (!longer) return longer;
    names = std::move(*longer);
    rest.remove_prefix(close + 1);
  }
  return names;
}

// The list up to a comma outside of brackets.
std::string_view take_word(std::string_view& list) {
  bool inside = false;
  std::size_t end = 0;
  for (; end < list.size() && (inside || list[end] != ','); ++end) {
    if (list[end] == '[' || list[end] == ']') inside = list[end] == '[';
  }
  const std::string_view word = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return word;
}

Status append_names(std::vector<std::string> names, std::size_t& bytes, std::string_view word,
                    std::vector<std::string>& all) {
  if (all.size() + names.size() > kMaxAllocatedHosts) return too_many(word);
  for (std::string& name : names) {
    if (!is_host_name(name))
      return bad("an item that is not a host name", name.empty() ? word : std::string_view(name));
    bytes += name.size();
    all.push_back(std::move(name));
  }
  return bytes > kMaxTextBytes ? Status(too_many(word)) : Status();
}

// "4" or "4(x2)".
Status add_count(std::string_view word, std::vector<std::uint32_t>& counts) {
  const std::size_t open = word.find("(x");
  const auto count = read_slots(word.substr(0, open));
  if (!count) return count.error();
  std::uint32_t times = 1;
  if (open != std::string_view::npos) {
    if (word.back() != ')') return bad("a parenthesis that is not closed", word);
    const auto answer = read_number(word.substr(open + 2, word.size() - open - 3));
    if (!answer) return answer.error();
    times = *answer;
  }
  if (times == 0 || times > kMaxAllocatedHosts - counts.size()) return bad("an impossible count of hosts", word);
  counts.insert(counts.end(), times, *count);
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  std::vector<std::string> all;
  std::size_t bytes = 0;
  if (text.empty()) return bad("no host", text);
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    auto names = expand_word(word);
    if (!names) return names;
    const Status added = append_names(std::move(*names), bytes, word, all);
    if (!added) return added.error();
  }
  return all;
}

Result<std::vector<std::uint32_t>> expand_counts(std::string_view text) {
  std::vector<std::uint32_t> counts;
  if (text.empty()) return bad("no number", text);
  while (!text.empty()) {
    const Status added = add_count(take_until(text, ','), counts);
    if (!added) return added.error();
  }
  return counts;
}

Result<std::uint32_t> read_slots(std::string_view text) {
  const auto slots = read_number(text);
  if (!slots) return slots.error();
  if (*slots >= 1 && *slots <= kMaxSlotsPerHost) return *slots;
  return bad("not a number of slots from 1 to " + std::to_string(kMaxSlotsPerHost), text);
}

Status HostCollector::add(std::string_view name, std::uint32_t slots) {
  if (!is_host_name(name)) return bad("an item that is not a host name", name);
  const auto [place, is_new] = places_.try_emplace(std::string(name), hosts_.size());
  if (is_new && hosts_.size() >= kMaxAllocatedHosts) return too_many(name);
  if (is_new) hosts_.push_back({std::string(name), 0});
  Host& host = hosts_[place->second];
  host.slots += slots;
  return host.slots <= kMaxSlotsPerHost ? Status() : Status(bad("too many slots on one host", name));
}

}  // namespace elastictrain::launcher
