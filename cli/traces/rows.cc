#include "cli/traces/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kShown = 40;

std::string shown(std::string_view cell) {
  return "'" + std::string(cell.substr(0, kShown)) + (cell.size() > kShown ? "..." : "") + "'";
}

std::vector<std::string_view> cells_between(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  for (std::size_t from = 0; from <= line.size();) {
    const std::size_t end = std::min(line.find(separator, from), line.size());
    cells.push_back(trim(line.substr(from, end - from)));
    from = end + 1;
  }
  return cells;
}

}  // namespace

Rows::Rows(std::string path, std::string_view text, char separator, bool has_header, std::vector<std::string> names)
    : path_(std::move(path)), rest_(text), separator_(separator), names_(std::move(names)) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  if (!has_header || !read_line()) return;
  for (const std::string_view cell : cells_) names_.emplace_back(cell);
}

bool Rows::has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

bool Rows::read_line() {
  while (!rest_.empty() && !failed_) {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    line_start_ = line.data();
    if (line.size() > kMaxTraceLine) {
      cells_ = {line.substr(0, 0)};
      complain("", "a line of " + std::to_string(line.size()) + " bytes; this is no table");
      return false;
    }
    if (trim(line).empty()) continue;
    cells_ = cells_between(line, separator_);
    return true;
  }
  return false;
}

bool Rows::next() {
  if (!read_line()) return false;
  if (cells_.size() == names_.size()) return true;
  complain("", std::to_string(cells_.size()) + " values for " + std::to_string(names_.size()) + " columns");
  return false;
}

std::size_t Rows::place(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end() && !failed_) return static_cast<std::size_t>(found - names_.begin());
  complain("", "there is no column " + std::string(name));
  return names_.size();
}

std::string Rows::text(std::string_view name) {
  const std::size_t at = place(name);
  return at < cells_.size() ? std::string(cells_[at]) : std::string();
}

double Rows::number(std::string_view name) {
  const std::size_t at = place(name);
  if (at >= cells_.size()) return 0;
  const auto value = parse_number(cells_[at]);
  if (!value) {
    complain(name, std::string(name) + " " + shown(cells_[at]) + " is not a number");
  } else if (*value < 0) {
    complain(name, std::string(name) + " " + shown(cells_[at]) + " is negative");
  } else if (*value > kMaxTraceNumber) {
    complain(name, std::string(name) + " " + shown(cells_[at]) + " is more than 1e15");
  }
  return failed_ ? 0 : *value;
}

double Rows::number_or_0(std::string_view name) {
  const std::size_t at = place(name);
  return at < cells_.size() && (cells_[at].empty() || cells_[at] == "nan") ? 0 : number(name);
}

double Rows::positive(std::string_view name) {
  const double value = number(name);
  if (!failed_ && value == 0) complain(name, std::string(name) + " must be more than 0");
  return value;
}

std::uint32_t Rows::slots(std::string_view name) {
  constexpr double kMaxSlots = 1e6;
  const double value = number(name);
  if (failed_) return 1;
  if (value >= 1 && value <= kMaxSlots && value == std::floor(value)) return static_cast<std::uint32_t>(value);
  complain(name, std::string(name) + " " + shown(text(name)) + " must be a whole number from 1 to 1000000");
  return 1;
}

void Rows::complain(std::string_view name, const std::string& what) {
  if (failed_) return;
  const auto found = std::find(names_.begin(), names_.end(), name);
  const auto at = static_cast<std::size_t>(found - names_.begin());
  const auto column = at < cells_.size() ? static_cast<std::size_t>(cells_[at].data() - line_start_) + 1 : 1;
  failed_ = true;
  error_ = path_ + ":" + std::to_string(line_) + ":" + std::to_string(column) + ": " + what;
}

}  // namespace elastictrain::cli
