#include "cli/output/explanation.h"

#include <algorithm>
#include <cstdio>

#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

std::string seconds(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

std::string describe_target(std::uint32_t workers, std::uint32_t target, const std::vector<std::uint64_t>& replaced,
                            const std::string& reason) {
  std::string text = target == workers ? "stay" : "go to " + std::to_string(target);
  for (const auto worker : replaced) text += ", replace w" + std::to_string(worker);
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

std::string render_explained(const std::vector<Explained>& views, const std::string& policy, bool all) {
  const auto differing = std::count_if(views.begin(), views.end(), [](const Explained& one) { return one.differs(); });
  std::vector<Table::Column> columns{{"up", Align::kRight}, {"workers", Align::kRight}, {"the run"}};
  const bool compares = all || differing > 0;
  if (compares) columns.push_back({"policy " + policy});
  Table table(columns);
  for (const auto& one : views) {
    if (!all && !one.is_decision && !one.differs()) continue;
    std::vector<std::string> row{seconds(one.up_s), std::to_string(one.workers),
                                 describe_target(one.workers, one.run_target, one.run_replaced, one.run_reason)};
    if (compares) row.push_back(describe_target(one.workers, one.now_wants, one.now_replaces, one.now_reason));
    table.add_row(row);
  }
  return table.render() + std::to_string(views.size()) + (views.size() == 1 ? " view, " : " views, ") +
         std::to_string(differing) + " decided differently\n";
}

std::string render_explained_json(const std::vector<Explained>& views, bool all) {
  std::string out;
  for (const auto& one : views) {
    if (!all && !one.is_decision && !one.differs()) continue;
    nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
    for (const auto& [name, value] : one.run_numbers) numbers[name] = value;
    const nlohmann::ordered_json line = {{"up_s", one.up_s},
                                         {"workers", one.workers},
                                         {"differs", one.differs()},
                                         {"decision", one.is_decision},
                                         {"run",
                                          {{"workers", one.run_target},
                                           {"replace", one.run_replaced},
                                           {"code", one.run_code},
                                           {"reason", one.run_reason},
                                           {"numbers", numbers}}},
                                         {"now",
                                          {{"workers", one.now_wants},
                                           {"replace", one.now_replaces},
                                           {"code", one.now_code},
                                           {"reason", one.now_reason}}}};
    out += json_text(line) + "\n";
  }
  return out;
}

}  // namespace elastictrain::cli
