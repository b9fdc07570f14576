#include "cli/report/html.h"

#include "cli/chart/markup.h"

namespace elastictrain::cli::run_report {

using chart::escaped;

std::string element(const std::string& tag, const std::string& classes, const std::string& content) {
  return "<" + tag + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + content + "</" + tag + ">\n";
}

std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const TableColumn& column : columns) {
    text += std::string("<th") + (column.is_number ? " class=\"number\"" : "") + ">" + escaped(column.title) + "</th>";
  }
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      text += std::string("<td") + (columns[i].is_number ? " class=\"number\"" : "") + ">" + escaped(row[i]) + "</td>";
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (left_out > 0)
    text += element("p", "note",
                    std::to_string(left_out) + " more between the first and the last ones: elastictrain events");
  return text;
}

}  // namespace elastictrain::cli::run_report
