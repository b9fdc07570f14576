#include "cli/output/table.h"

#include <algorithm>

namespace elastictrain::cli {
namespace {

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
  return columns == 0 ? "" : first_columns(text, columns - 1) + "…";
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::render() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](auto&& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      line += (i == 0 ? "" : "  ") + pad(cell_of(i), widths[i], columns_[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([this](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&row](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace elastictrain::cli
