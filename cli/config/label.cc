#include "cli/config/label.h"

#include <iterator>

namespace elastictrain::cli {
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
