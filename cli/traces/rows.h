// Purpose: rows of a text table, with a place (file:line:column) for every complaint. Pure.
//
// The first complaint stays; after it, every value read is 0 or empty, so a reader looks at error() once per row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

inline constexpr std::size_t kMaxTraceLine = 1 << 16;
inline constexpr double kMaxTraceNumber = 1e15;

class Rows {
 public:
  // With a header line the columns have its names; without one they have those of `names`, in order. `text` must
  // outlive this object.
  Rows(std::string path, std::string_view text, char separator, bool has_header, std::vector<std::string> names = {});

  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const;
  // The next row that is not empty; false at the end or after a complaint.
  bool next();
  std::size_t line() const { return line_; }

  // Finite, at least 0, at most 1e15.
  double number(std::string_view name);
  // The same, and more than 0.
  double positive(std::string_view name);
  // A whole number of slots from 1 on.
  std::uint32_t slots(std::string_view name);
  std::string text(std::string_view name);
  // Empty cells and "nan" (not measured) are 0.
  double number_or_0(std::string_view name);

  void complain(std::string_view name, const std::string& what);
  bool failed() const { return failed_; }
  Error error() const { return {ErrorCode::kInvalid, error_}; }

 private:
  std::size_t place(std::string_view name);
  bool read_line();

  std::string path_;
  std::string_view rest_;
  char separator_;
  std::vector<std::string> names_;
  std::vector<std::string_view> cells_;
  const char* line_start_ = nullptr;
  std::size_t line_ = 0;
  bool failed_ = false;
  std::string error_;
};

}  // namespace elastictrain::cli
