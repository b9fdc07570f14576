// Purpose: text in aligned columns. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elastictrain::cli {

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; missing ones are empty.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // One line for the titles and one per row, each with a newline; two spaces between columns, no trailing spaces.
  std::string render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns that the text takes on a terminal; UTF-8 continuation bytes take none.
std::size_t display_width(std::string_view text);

// The first `columns` columns of the text.
std::string first_columns(std::string_view text, std::size_t columns);
// The same. A cut is marked by "…" if there is room for it.
std::string fit(std::string_view text, std::size_t columns);

}  // namespace elastictrain::cli
