#include "cli/config/rank_set.h"

#include <algorithm>
#include <string>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr std::uint64_t kMaxRank = 1'000'000;

std::optional<std::pair<std::int64_t, std::int64_t>> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_whole_number(trim(text.substr(0, dash)));
  const auto last = dash == std::string_view::npos ? first : parse_whole_number(trim(text.substr(dash + 1)));
  if (!first || !last || *first > *last || *last > kMaxRank) return std::nullopt;
  return std::pair(static_cast<std::int64_t>(*first), static_cast<std::int64_t>(*last));
}

}  // namespace

Result<RankSet> RankSet::parse(std::string_view text) {
  RankSet set;
  set.all_ = trim(text) == "all";
  if (set.all_ || trim(text) == "none") return set;
  for (const std::string& part : split(text, ',')) {
    const auto range = parse_range(part);
    if (!range)
      return Error{ErrorCode::kInvalid, "'" + part + "' is not a rank or a range of ranks; write 0,4-7, all or none"};
    set.ranges_.push_back(*range);
  }
  if (set.ranges_.empty()) return Error{ErrorCode::kInvalid, "no rank is given; write 0,4-7, all or none"};
  return set;
}

bool RankSet::contains(std::int64_t rank) const {
  if (all_) return true;
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [rank](const auto& range) { return rank >= range.first && rank <= range.second; });
}

}  // namespace elastictrain::cli
