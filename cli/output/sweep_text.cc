#include "cli/output/sweep_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/config/text.h"
#include "supervisor/core/pure/text.h"

namespace elastictrain::cli {
namespace {

namespace search = heuristics::sweep;

std::vector<search::Trial> trials_in(const SweepView& sweep) {
  std::vector<search::Trial> trials;
  for (const TrialView& one : sweep.trials) trials.push_back(one.trial);
  return trials;
}

// Those that have reported first.
std::vector<std::size_t> order_of(const SweepView& sweep) {
  std::vector<std::size_t> order = search::ranking(sweep.rule, trials_in(sweep));
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  return order;
}

double best_report(const SweepView& sweep, const TrialView& one) {
  return search::best_of(sweep.rule, one.trial.reports, one.trial.reports.size());
}

std::string figure(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string head_of(const SweepView& sweep) {
  std::map<std::string, std::size_t> states;
  for (const TrialView& one : sweep.trials) ++states[one.state.substr(0, one.state.find(' '))];
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) parts.push_back(std::to_string(count) + " " + state);
  const auto best = best_trial(sweep);
  return "sweep " + sweep.name + ": " + core::counted(sweep.trials.size(), "trial") + ", " + join(parts, ", ") +
         (best ? "\nbest: " + *best : "") + "\n" + (sweep.problem.empty() ? "" : sweep.problem + "\n");
}

}  // namespace

std::optional<std::string> best_trial(const SweepView& sweep) {
  const auto ranked = search::ranking(sweep.rule, trials_in(sweep));
  if (ranked.empty()) return std::nullopt;
  const TrialView& best = sweep.trials[ranked.front()];
  if (std::isnan(best_report(sweep, best))) return std::nullopt;
  std::vector<std::string> values;
  for (const auto& [name, value] : best.values) values.push_back(name + " = " + value);
  return best.name + " (" + sweep.metric + " " + figure(best_report(sweep, best)) + "; " + join(values, ", ") + ")";
}

std::string render_sweep(const SweepView& sweep, const Room& room) {
  std::vector<Table::Column> columns = {{"trial"}};
  if (!sweep.trials.empty()) {
    for (const auto& value : sweep.trials.front().values) columns.push_back({value.first, Align::kRight});
  }
  for (const char* figures : {"best", "last", "reports"}) columns.push_back({figures, Align::kRight});
  columns.push_back({"state"});
  columns.push_back({"slots", Align::kRight, 1});
  columns.push_back({"why"});
  Table table(std::move(columns));
  for (const std::size_t i : order_of(sweep)) {
    const TrialView& one = sweep.trials[i];
    std::vector<std::string> row = {one.name};
    for (const auto& value : one.values) row.push_back(value.second);
    const bool has_reported = !one.trial.reports.empty();
    row.push_back(has_reported ? figure(best_report(sweep, one)) : "");
    row.push_back(has_reported ? figure(one.trial.reports.back()) : "");
    row.push_back(std::to_string(one.trial.reports.size()));
    row.push_back(one.state);
    row.push_back(one.slots > 0 ? std::to_string(one.slots) : "");
    row.push_back(one.why);
    table.add_row(std::move(row));
  }
  return head_of(sweep) + table.render(room);
}

nlohmann::json sweep_json(const SweepView& sweep) {
  nlohmann::json all = {{"name", sweep.name},
                        {"metric", sweep.metric},
                        {"goal", sweep.rule.higher_is_better ? "max" : "min"},
                        {"trials", nlohmann::json::array()}};
  if (!sweep.problem.empty()) all["problem"] = sweep.problem;
  for (const std::size_t i : order_of(sweep)) {
    const TrialView& one = sweep.trials[i];
    nlohmann::json values = nlohmann::json::object();
    for (const auto& [name, value] : one.values) values[name] = value;
    nlohmann::json reports = nlohmann::json::array();  // null: it was no number
    for (const double report : one.trial.reports)
      reports.push_back(std::isnan(report) ? nlohmann::json() : nlohmann::json(report));
    all["trials"].push_back({{"name", one.name},
                             {"parameters", values},
                             {"state", one.state},
                             {"slots", one.slots},
                             {"reports", reports},
                             {"why", one.why}});
  }
  return all;
}

}  // namespace elastictrain::cli
