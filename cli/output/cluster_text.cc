#include "cli/output/cluster_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "cli/output/printable.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/message_text.h"

namespace elastictrain::cli {

nlohmann::json in_one_line(nlohmann::json value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>(), Lines::kOne);
  if (value.is_structured()) {
    for (auto& part : value) part = in_one_line(std::move(part));
  }
  return value;
}

namespace {

std::string progress_of(const nlohmann::json& job) {
  const double samples = job.value("samples", 0.0), total = job.value("samples_total", 0.0);
  if (total > 0) return std::to_string(std::lround(100 * std::min(1.0, samples / total))) + "%";
  const double expected = job.value("expected_samples", 0.0), error = job.value("expected_error", 0.0);
  if (expected > 0 && job.value("phase", "") != "ended") {
    return "~" + std::to_string(std::lround(100 * std::min(1.0, samples / expected))) + "% ± " +
           std::to_string(std::lround(100 * std::min(1.0, samples / expected) * error / expected));
  }
  return samples > 0 ? "step " + std::to_string(job.value("step", 0ULL)) : "";
}

std::string state_of(const nlohmann::json& job) {
  const std::string phase = job.value("phase", "");
  if (phase == "ended") return "ended (" + std::to_string(job.value("status", 0)) + ")";
  if (job.value("paused", false)) return "paused";
  if (!job["overdue"].empty()) return "overdue";
  if (phase != "joined") return phase;
  const std::string run_phase = job.value("run_phase", "");  // empty before its first report
  if (!job["stands_on"].empty() && job.value("slots", 0) == 0) return "suspended";
  return job.value("slots", 0) == 0 ? "waiting" : run_phase.empty() ? phase : run_phase;
}

std::string render_jobs(const nlohmann::json& cluster, bool all, const Room& room) {
  Table table({{"job"},
               {"name"},
               {"user", Align::kLeft, 3},
               {"state"},
               {"slots", Align::kRight},
               {"sizes", Align::kLeft, 2},
               {"prio", Align::kRight, 4},
               {"done", Align::kRight},
               {"ends in", Align::kRight, 1},
               {"why"}});
  for (const auto& job : cluster["jobs"]) {
    const bool ended = job.value("phase", "") == "ended";
    if (ended && !all) continue;
    const auto left = job.find("left_s");
    const bool foreseen = !ended && left != job.end() && left->is_number();
    table.add_row({job.value("id", ""), job.value("name", ""), job.value("user", ""), state_of(job),
                   ended ? "" : std::to_string(job.value("slots", 0)),
                   std::to_string(job.value("min", 0)) + ":" + std::to_string(job.value("max", 0)),
                   std::to_string(job.value("priority", 0)), progress_of(job),
                   foreseen ? format_duration(left->get<double>()) : "", job.value("why", "")});
  }
  return table.render(room);
}

std::string render_helpers(const nlohmann::json& helpers) {
  std::uint64_t slots = 0;
  std::vector<std::string> names;
  for (const auto& host : helpers["hosts"]) {
    slots += host.value("slots", 0ULL);
    const std::string job = host.value("job", "");
    names.push_back(host.value("host", "") + (job.empty() ? "" : " (job " + job + ")"));
  }
  std::string text =
      "helper jobs: " + (names.empty() ? "none" : core::counted(slots, "slot") + " on " + join(names, ", "));
  const std::uint64_t asked = helpers.value("asked_slots", 0ULL);
  if (asked > 0) {
    text += "; " + core::counted(asked, "slot") + " more asked for " +
            format_duration(helpers.value("asked_for_s", 0.0)) + " ago";
  }
  const std::string why = helpers.value("why", "");
  return text + (why.empty() ? "" : "; " + why) + "\n";
}

std::string render_cluster_head(const nlohmann::json& cluster) {
  const std::size_t waiting = cluster["waiting"].size();
  std::string text = "cluster " + cluster.value("name", "") + ": policy " + cluster.value("policy", "") + ", " +
                     std::to_string(cluster.value("leased", 0)) + " of " +
                     core::counted(cluster.value("slots", 0ULL), "slot") + " leased, " + core::counted(waiting, "job") +
                     (waiting == 1 ? " waits" : " wait") + "\n";
  const std::string problem = cluster.value("policy_problem", "");
  if (!problem.empty()) {
    text += "its policy does not work: " + problem + "; " + cluster.value("decides", "") + " decides in its place\n";
  }
  if (cluster.contains("helpers")) text += render_helpers(cluster["helpers"]);
  if (cluster.value("resuming", false)) text += "it was started again and waits for its runs; nothing is decided yet\n";
  if (cluster.value("journal_fails", false)) text += "its journal cannot be written; it takes no jobs\n";
  return text;
}

// Slots of the host in a list of {"host","slots"}.
std::size_t slots_on(const nlohmann::json& places, const std::string& host) {
  std::size_t count = 0;
  for (const auto& one : places) {
    if (one.value("host", "") == host) count += one["slots"].size();
  }
  return count;
}

std::string render_cluster_hosts(const nlohmann::json& cluster, const Room& room) {
  Table table({{"host"},
               {"slots", Align::kRight},
               {"leased", Align::kRight},
               {"free", Align::kRight},
               {"overdue", Align::kRight},
               {"jobs"}});
  for (const auto& host : cluster["hosts"]) {
    const std::string name = host.value("host", "");
    const std::size_t slots = host.value("slots", std::size_t{0});
    std::size_t leased = 0, overdue = 0;
    std::vector<std::string> jobs;
    for (const auto& job : cluster["jobs"]) {
      const std::size_t here = slots_on(job["leased"], name), late = slots_on(job["overdue"], name);
      leased += here;
      overdue += late;
      if (here + late > 0) jobs.push_back(job.value("id", "") + ": " + std::to_string(here));
    }
    const bool gone = slots == 0;
    if (gone && jobs.empty()) continue;
    table.add_row({name, gone ? "gone" : std::to_string(slots), std::to_string(leased),
                   std::to_string(slots - std::min(slots, leased + overdue)),
                   overdue > 0 ? std::to_string(overdue) : "", join(jobs, ", ")});
  }
  return table.render(room);
}

}  // namespace

std::string render_queue(const nlohmann::json& cluster, bool all, const Room& room) {
  return render_cluster_head(cluster) + render_jobs(cluster, all, room);
}

std::string render_cluster_status(const nlohmann::json& cluster, const Room& room) {
  return render_cluster_head(cluster) + "\n" + render_cluster_hosts(cluster, room) + "\n" +
         render_jobs(cluster, false, room);
}

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
