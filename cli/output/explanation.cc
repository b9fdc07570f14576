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
  Table table({{"up", Align::kRight}, {"workers", Align::kRight}, {"the run"}, {"policy " + policy}});
  for (const auto& one : views) {
    if (!all && !one.differs() && &one != &views.back()) continue;
    table.add_row({seconds(one.up_s), std::to_string(one.workers),
                   describe_target(one.workers, one.run_target, one.run_replaced, one.run_reason),
                   describe_target(one.workers, one.now_wants, one.now_replaces, one.now_reason)});
  }
  const auto differing = std::count_if(views.begin(), views.end(), [](const Explained& one) { return one.differs(); });
  return table.render() + std::to_string(views.size()) + (views.size() == 1 ? " view, " : " views, ") +
         std::to_string(differing) + " decided differently\n";
}

std::string render_explained_json(const std::vector<Explained>& views, bool all) {
  std::string out;
  for (const auto& one : views) {
    if (!all && !one.differs()) continue;
    const nlohmann::ordered_json line = {{"up_s", one.up_s},
                                         {"workers", one.workers},
                                         {"differs", one.differs()},
                                         {"run",
                                          {{"workers", one.run_target},
                                           {"replace", one.run_replaced},
                                           {"code", one.run_code},
                                           {"reason", one.run_reason}}},
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
