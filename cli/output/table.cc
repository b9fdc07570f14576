#include "cli/output/table.h"

#include <algorithm>
#include <cstdio>

namespace elastictrain::cli {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

namespace {

constexpr std::string_view kGap = "  ";
constexpr std::string_view kCutMark = "…";

bool starts_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

std::string pad(const std::string& cell, std::size_t width, Align align) {
  const std::string space(width - std::min(width, display_width(cell)), ' ');
  return align == Align::kLeft ? cell + space : space + cell;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (starts_character(text[end]) && seen++ == columns) break;
  }
  return std::string(text.substr(0, end));
}

std::string fit(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  return columns == 0 ? "" : first_columns(text, columns - 1).append(kCutMark);
}

std::string with_ascii_mark(std::string text) {
  for (std::size_t at = text.find(kCutMark); at != std::string::npos; at = text.find(kCutMark, at)) {
    text.replace(at, kCutMark.size(), "~");
  }
  return text;
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

// Which columns there is room for. The last one gets what the others leave, if that is worth it.
std::vector<bool> Table::shown_in(const Room& room, std::vector<std::size_t>& widths) const {
  constexpr std::size_t kLeastOfLast = 20;
  std::vector<bool> shown(columns_.size(), true);
  const std::size_t last = columns_.size() - 1;
  const auto used = [&] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < last; ++i) sum += shown[i] ? widths[i] + kGap.size() : 0;
    return sum;
  };
  while (used() + std::min(widths[last], kLeastOfLast) > room.columns) {
    std::size_t weakest = last;
    for (std::size_t i = 0; i < last; ++i) {
      if (shown[i] && columns_[i].gives_way > (weakest == last ? 0 : columns_[weakest].gives_way)) weakest = i;
    }
    if (weakest == last) break;
    shown[weakest] = false;
  }
  widths[last] = std::min(widths[last], room.columns - std::min(room.columns, used()));
  return shown;
}

std::string Table::render(const Room& room) const {
  if (columns_.empty()) return "";
  std::vector<std::size_t> widths = this->widths();
  const std::vector<bool> shown = shown_in(room, widths);
  std::string text;
  const auto add_line = [&](auto&& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (shown[i]) line += pad(fit(cell_of(i), widths[i]), widths[i], columns_[i].align).append(kGap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([this](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&row](std::size_t i) { return row[i]; });
  return room.unicode ? text : with_ascii_mark(std::move(text));
}

}  // namespace elastictrain::cli
