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

}  // namespace elastictrain::checkpoint
