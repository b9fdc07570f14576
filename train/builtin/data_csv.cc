#include "train/builtin/data_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "train/builtin/data_file.h"

namespace elastictrain::train {
namespace {

constexpr float kMaxLabel = 65535;

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Returns the part up to the separator and removes both from `rest`.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool parse_cell(std::string_view cell, float& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value);
}

std::string shown(std::string_view cell) {
  constexpr std::size_t kShownBytes = 40;
  std::string text(cell.substr(0, kShownBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, '?');
  return "'" + text + (cell.size() > kShownBytes ? "…'" : "'");
}

// One line as numbers. A line that ends in a comma has an empty last cell.
class CsvReader {
 public:
  explicit CsvReader(std::string_view name) : name_(name) {}

  Status add_line(std::string_view line) {
    ++line_number_;
    line = trim(line);
    if (line.empty()) return {};
    if (first_line_ && is_header(line)) {
      first_line_ = false;
      return {};
    }
    first_line_ = false;
    const Status cells = parse_cells(line);
    return cells ? add_row() : cells;
  }

  Result<LabelledRows> finish() {
    if (rows_.size() == 0) return error_at_line(name_, line_number_, "this file has no row of numbers");
    return std::move(rows_);
  }

 private:
  static bool is_header(std::string_view line) {
    float ignored = 0;
    std::size_t numbers = 0;
    while (!line.empty()) numbers += parse_cell(trim(take_until(line, ',')), ignored) ? 1 : 0;
    return numbers == 0;
  }

  Status parse_cells(std::string_view line) {
    row_.clear();
    bool more = true;
    while (more) {
      more = line.find(',') != std::string_view::npos;
      const std::string_view cell = trim(take_until(line, ','));
      float value = 0;
      if (!parse_cell(cell, value)) {
        return error_at_line(name_, line_number_,
                             "cell " + std::to_string(row_.size() + 1) + " is " + shown(cell) +
                                 ", not a number; rows are numbers separated by commas, the label last");
      }
      row_.push_back(value);
    }
    return {};
  }

  Status add_row() {
    if (row_.size() < 2) return error_at_line(name_, line_number_, "a row needs at least one number and a label");
    if (rows_.size() == 0) rows_.features = row_.size() - 1;
    if (row_.size() - 1 != rows_.features) {
      return error_at_line(name_, line_number_,
                           std::to_string(row_.size()) + " cells, but the rows before have " +
                               std::to_string(rows_.features + 1) + "; the line may be cut off");
    }
    const float label = row_.back();
    if (label < 0 || label > kMaxLabel || label != std::floor(label)) {
      return error_at_line(name_, line_number_, "the label (last cell) must be a whole number from 0 to 65535");
    }
    rows_.labels.push_back(static_cast<std::uint32_t>(label));
    rows_.numbers.insert(rows_.numbers.end(), row_.begin(), row_.end() - 1);
    return {};
  }

  std::string_view name_;
  std::size_t line_number_ = 0;
  bool first_line_ = true;
  std::vector<float> row_;
  LabelledRows rows_;
};

}  // namespace

Result<LabelledRows> parse_csv(std::string_view text, std::string_view name) {
  CsvReader reader(name);
  while (!text.empty()) {
    const Status added = reader.add_line(take_until(text, '\n'));
    if (!added) return added.error();
  }
  return reader.finish();
}

}  // namespace elastictrain::train
