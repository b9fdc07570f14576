#include "cli/output/run_list.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "-";
}

std::string time_cell(const std::optional<double>& unix_s) {
  if (!unix_s) return "-";
  const auto time = static_cast<std::time_t>(*unix_s);
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

template <class T>
nlohmann::json json_of(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json object_of(const ListedRun& run) {
  return {{"name", run.name},
          {"state", run.state},
          {"workers", json_of(run.workers)},
          {"epoch", json_of(run.epoch)},
          {"step", json_of(run.step)},
          {"loss", json_of(run.loss)},
          {"started", json_of(run.started_unix_s)},
          {"ended", json_of(run.ended_unix_s)},
          {"exit_status", json_of(run.exit_status)},
          {"reason", run.reason}};
}

}  // namespace

void sort_runs(std::vector<ListedRun>& runs) {
  const auto place = [](const ListedRun& run) {
    return std::tuple(run.is_live() ? 0 : 1, -run.ended_unix_s.value_or(run.started_unix_s.value_or(0)), run.name);
  };
  std::sort(runs.begin(), runs.end(),
            [&](const ListedRun& one, const ListedRun& other) { return place(one) < place(other); });
}

std::string render_runs(const std::vector<ListedRun>& runs, const Room& room) {
  Table table({{"run"},
               {"state"},
               {"workers", Align::kRight, 1},
               {"epoch", Align::kRight, 3},
               {"step", Align::kRight, 2},
               {"started", Align::kLeft, 4},
               {"ended"},
               {"status", Align::kRight}});
  for (const ListedRun& run : runs) {
    table.add_row({run.name, run.state, cell(run.workers), cell(run.epoch), cell(run.step),
                   time_cell(run.started_unix_s), time_cell(run.ended_unix_s), cell(run.exit_status)});
  }
  return table.empty() ? "" : table.render(room);
}

std::string run_json(const ListedRun& run) {
  return json_text(object_of(run));
}

std::string runs_json(const std::vector<ListedRun>& runs) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedRun& run : runs) all.push_back(object_of(run));
  return json_text(all);
}

}  // namespace elastictrain::cli
