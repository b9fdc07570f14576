#include "cli/config/label.h"

#include <algorithm>
#include <iterator>
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

namespace {

struct LabelKey {
  std::string_view name;
  std::string LabelValues::*value;
};

constexpr LabelKey kKeys[] = {{"rank", &LabelValues::rank},     {"local_rank", &LabelValues::local_rank},
                              {"host", &LabelValues::host},     {"gen", &LabelValues::generation},
                              {"worker", &LabelValues::worker}, {"stream", &LabelValues::stream},
                              {"time", &LabelValues::time},     {"pid", &LabelValues::pid}};

const LabelKey* find_label_key(std::string_view name) {
  for (const LabelKey& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

Error unknown_label_key(std::string_view name) {
  std::string known;
  for (const LabelKey& key : kKeys) known += " {" + std::string(key.name) + "}";
  return {ErrorCode::kInvalid, "'{" + std::string(name) + "}' is not a key of a label; the keys are" + known};
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

}  // namespace

Result<Label> Label::parse(std::string_view text) {
  Label label;
  std::string literal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if ((text[i] == '{' || text[i] == '}') && doubled) {
      literal += text[i++];
    } else if (text[i] == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos)
        return Error{ErrorCode::kInvalid, "a '{' in the label is not closed; write {{ for a literal brace"};
      const std::string_view name = text.substr(i + 1, end - i - 1);
      if (find_label_key(name) == nullptr) return unknown_label_key(name);
      if (!literal.empty()) label.parts_.push_back({false, std::exchange(literal, {})});
      label.parts_.push_back({true, std::string(name)});
      i = end;
    } else {
      literal += text[i];
    }
  }
  if (!literal.empty()) label.parts_.push_back({false, literal});
  return label;
}

std::string Label::render(const LabelValues& values, std::size_t rank_width) const {
  std::string text;
  for (const Part& part : parts_) {
    if (!part.is_key) {
      text += part.text;
      continue;
    }
    const std::string& value = values.*find_label_key(part.text)->value;
    text += part.text == "rank" ? padded(value, rank_width) : value;
  }
  return text;
}

}  // namespace elastictrain::cli
