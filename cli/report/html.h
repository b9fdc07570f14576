// Purpose: pieces of an HTML page: elements and tables. Pure. Text of runs is escaped here, so that nothing of a
// program or host becomes markup.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace elastictrain::cli::run_report {

// <TAG class="…">content</TAG>; the content is markup.
std::string element(const std::string& tag, const std::string& classes, const std::string& content);

struct TableColumn {
  std::string title;
  bool is_number = false;
};
// Cells are text. `left_out`: rows between the first and the last ones that are not here.
std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out = 0);

}  // namespace elastictrain::cli::run_report
