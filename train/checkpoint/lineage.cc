#include "train/checkpoint/lineage.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

namespace elastictrain::checkpoint {
namespace {

constexpr std::size_t kMaxFences = 256;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Lineage merge(std::span<const Fence> a, std::span<const Fence> b) {
  Lineage all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  // From the newest on, only a fence with an earlier first step adds information. Of two that disagree the stricter one
  // counts.
  std::sort(all.begin(), all.end(), [](const Fence& x, const Fence& y) {
    return x.generation != y.generation ? x.generation > y.generation : x.first_step < y.first_step;
  });
  Lineage merged;
  for (const Fence& fence : all) {
    if (!merged.empty() && merged.back().first_step <= fence.first_step) continue;
    merged.push_back(fence);
  }
  if (merged.size() > kMaxFences) merged.resize(kMaxFences);
  std::reverse(merged.begin(), merged.end());
  return merged;
}

bool is_fenced_out(const Identity& identity, std::span<const Fence> lineage) {
  return std::any_of(lineage.begin(), lineage.end(), [&](const Fence& fence) {
    return fence.generation > identity.generation && fence.first_step <= identity.step;
  });
}

std::vector<Identity> newest_first(std::span<const Identity> found, std::span<const Fence> lineage) {
  std::vector<Identity> valid;
  for (const Identity& identity : found) {
    if (!is_fenced_out(identity, lineage)) valid.push_back(identity);
  }
  std::sort(valid.begin(), valid.end(), std::greater<>());
  return valid;
}

std::vector<Identity> removable(std::span<const Identity> found, std::span<const Fence> lineage, std::size_t keep,
                                Generation foreign) {
  const auto valid = newest_first(found, lineage);
  std::vector<Identity> gone;
  for (std::size_t i = std::max<std::size_t>(keep, 1); i < valid.size(); ++i) gone.push_back(valid[i]);
  if (valid.empty()) return gone;
  for (const Identity& identity : found) {
    if (identity.generation > foreign && is_fenced_out(identity, lineage)) gone.push_back(identity);
  }
  return gone;
}

Result<Lineage> parse_lineage(std::string_view text) {
  Lineage lineage;
  while (!text.empty()) {
    const auto entry = text.substr(0, text.find(','));
    const auto colon = entry.find(':');
    const auto generation = number(entry.substr(0, colon));
    const auto first_step = colon == std::string_view::npos ? std::nullopt : number(entry.substr(colon + 1));
    if (!generation || !first_step) {
      return Error{ErrorCode::kInvalid, "\"" + std::string(entry) + "\" is not generation:first_step"};
    }
    lineage.push_back({*generation, *first_step});
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return lineage;
}

namespace {

constexpr std::string_view kTemporary = ".tmp.gen-";

// Takes expected parts off the front of a text. After the first missing part it stays failed.
class Taker {
 public:
  explicit Taker(std::string_view text) : text_(text) {}
  Taker& word(std::string_view expected) {
    failed_ = failed_ || !text_.starts_with(expected);
    if (!failed_) text_.remove_prefix(expected.size());
    return *this;
  }
  // Only in the form that we write: "007" is not accepted.
  Taker& number(std::uint64_t& value) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    failed_ = failed_ || error != std::errc() || (text_.starts_with('0') && end - text_.data() > 1);
    if (!failed_) text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return *this;
  }
  bool at_end() const { return !failed_ && text_.empty(); }

 private:
  std::string_view text_;
  bool failed_ = false;
};

std::string stem(const Identity& identity) {
  return "step-" + std::to_string(identity.step) + ".gen-" + std::to_string(identity.generation);
}

std::optional<FileName> parse_temporary(std::string_view name, std::size_t mark) {
  FileName result{.kind = FileKind::kTemporary, .wanted = std::string(name.substr(0, mark))};
  const auto tail = name.substr(mark + kTemporary.size());
  const auto first = tail.find('.');
  const auto last = tail.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  std::uint64_t pid = 0;
  if (!Taker(tail.substr(0, first)).number(result.writer.generation).at_end()) return std::nullopt;
  if (!Taker(tail.substr(last + 1)).number(pid).at_end()) return std::nullopt;
  result.writer.host = tail.substr(first + 1, last - first - 1);
  result.writer.pid = static_cast<std::int64_t>(pid);
  if (!parse_name(result.wanted)) return std::nullopt;
  return result;
}

}  // namespace

std::string harmless(std::string_view host) {
  std::string text;
  for (const char c : host.substr(0, 64)) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    text += kept ? c : '_';
  }
  return text;
}

std::string data_name(const Identity& identity) {
  return stem(identity) + ".safetensors";
}

std::string manifest_name(const Identity& identity) {
  return stem(identity) + ".json";
}

std::string fence_name(Generation generation) {
  return "fence.gen-" + std::to_string(generation) + ".json";
}

std::string temporary_name(std::string_view name, const Writer& writer) {
  return std::string(name) + std::string(kTemporary) + std::to_string(writer.generation) + "." + harmless(writer.host) +
         "." + std::to_string(writer.pid);
}

std::optional<FileName> parse_name(std::string_view name) {
  if (const auto mark = name.find(kTemporary); mark != std::string_view::npos) return parse_temporary(name, mark);
  FileName result;
  Identity& identity = result.identity;
  if (Taker(name).word("fence.gen-").number(identity.generation).word(".json").at_end()) {
    result.kind = FileKind::kFence;
    return result;
  }
  auto rest = Taker(name).word("step-").number(identity.step).word(".gen-").number(identity.generation);
  if (Taker(rest).word(".safetensors").at_end()) return result;
  result.kind = FileKind::kManifest;
  if (rest.word(".json").at_end()) return result;
  return std::nullopt;
}

}  // namespace elastictrain::checkpoint
