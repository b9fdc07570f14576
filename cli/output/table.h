// Purpose: tables as text: cells, columns, and the width that they take on a terminal. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Cells of tables and of CSV. Pure.

namespace elastictrain::cli {

std::string fixed(double value, int digits);
// A cell of CSV: quoted if it has to be.
std::string csv_cell(const std::string& text);

// Text in aligned columns. Pure.

enum class Align { kLeft, kRight };

// What a table is written to.
struct Room {
  std::size_t columns = static_cast<std::size_t>(-1);
  bool unicode = true;  // false: cuts are marked in ASCII
};

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    unsigned gives_way = 0;  // where there is no room the highest one is left out first; 0: it stays
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; missing ones are empty.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // One line for the titles and one per row, each with a newline; two spaces between columns, no trailing spaces. Where
  // the room is not enough, columns give way, and the last one is cut.
  std::string render(const Room& room = {}) const;

 private:
  std::vector<std::size_t> widths() const;
  std::vector<bool> shown_in(const Room& room, std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Columns that the text takes on a terminal; UTF-8 continuation bytes take none.
std::size_t display_width(std::string_view text);

// The first `columns` columns of the text.
std::string first_columns(std::string_view text, std::size_t columns);
// The same. A cut is marked by "…" if there is room for it.
std::string fit(std::string_view text, std::size_t columns);

// The mark of a cut as "~".
std::string with_ascii_mark(std::string text);

}  // namespace elastictrain::cli
