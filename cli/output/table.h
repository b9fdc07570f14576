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

  // One cell for each column; missing ones are empty.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // One line for the titles and one for each row, each ended; two spaces between columns, none at the end of a line.
  std::string render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns that a terminal needs for the text: UTF-8 continuation bytes take none.
std::size_t display_width(std::string_view text);

// The first `columns` columns of the text; a cut is marked by "…" when there is room for it.
std::string fit(std::string_view text, std::size_t columns);

}  // namespace elastictrain::cli
