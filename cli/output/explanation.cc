#include "cli/output/explanation.h"

#include <algorithm>

#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {

std::string expected_length_text(const std::optional<std::pair<double, double>>& samples, const std::string& why_not,
                                 std::optional<double> left_s) {
  if (!samples) return why_not.empty() ? "" : "length: not known by its loss: " + why_not + "\n";
  const std::string left = !left_s ? "" : *left_s > 0 ? ", in " + format_duration(*left_s) : ", which is over";
  return "length, by its loss: converges at " + format_count(samples->first) + " samples ± " +
         format_count(samples->second) + left + "\n";
}

namespace {

std::string describe_target(std::uint32_t workers, std::uint32_t target, const std::vector<std::uint64_t>& replaced,
                            const std::string& reason) {
  std::string text = target == workers ? "stay" : "go to " + std::to_string(target);
  for (const auto worker : replaced) text += ", replace w" + std::to_string(worker);
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

std::string render_explained(const std::vector<Explained>& views, const std::string& policy, bool all) {
  const auto changes = std::count_if(views.begin(), views.end(), [](const Explained& one) { return one.is_change; });
  const auto seen = static_cast<std::ptrdiff_t>(views.size()) - changes;
  const auto differing = std::count_if(views.begin(), views.end(), [](const Explained& one) { return one.differs(); });
  std::vector<Table::Column> columns{{"up", Align::kRight}, {"workers", Align::kRight}, {"the run"}};
  const bool compares = all || differing > 0;
  if (compares) columns.push_back({"policy " + policy});
  Table table(columns);
  for (const auto& one : views) {
    if (one.says_nothing() || (!all && !one.is_decision && !one.differs())) continue;
    const std::string run =
        one.is_change ? one.run_reason : describe_target(one.workers, one.run_target, one.run_replaced, one.run_reason);
    std::vector<std::string> row{format_duration(one.up_s), std::to_string(one.workers), run};
    if (compares && one.is_change) row.emplace_back();
    if (compares && !one.is_change)
      row.push_back(describe_target(one.workers, one.now_wants, one.now_replaces, one.now_reason));
    table.add_row(row);
  }
  return table.render() + std::to_string(seen) + (seen == 1 ? " view" : " views") + " of policy " + policy + ", " +
         std::to_string(differing) + " decided differently\n";
}

std::string render_explained_json(const std::vector<Explained>& views, bool all) {
  std::string out;
  for (const auto& one : views) {
    if (one.says_nothing() || (!all && !one.is_decision && !one.differs())) continue;
    nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
    for (const auto& [name, value] : one.run_numbers) numbers[name] = value;
    const nlohmann::ordered_json line = {{"up_s", one.up_s},
                                         {"workers", one.workers},
                                         {"differs", one.differs()},
                                         {"decision", one.is_decision},
                                         {"change", one.is_change},
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
