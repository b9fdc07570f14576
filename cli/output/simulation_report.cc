#include "cli/output/simulation_report.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output/cells.h"
#include "cli/output/table.h"

namespace elastictrain::cli {
namespace {

using heuristics::cluster::Cost;
using heuristics::cluster::JobResult;

std::string exact(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& one : cells) line += (line.empty() ? "" : ",") + one;
  return line + "\n";
}

using Named = std::vector<std::pair<const char*, double>>;

// The numbers of a row, in the order of the header.
Named numbers_of(const SimulatedRun& run) {
  const auto& figures = run.figures;
  return {{"jobs", static_cast<double>(figures.jobs)},
          {"avg_jct_s", figures.mean_jct_s},
          {"median_jct_s", figures.median_jct_s},
          {"p99_jct_s", figures.p99_jct_s},
          {"max_jct_s", figures.max_jct_s},
          {"makespan_s", figures.makespan_s},
          {"utilization", figures.utilization},
          {"decisions", static_cast<double>(figures.decisions)},
          {"changes", static_cast<double>(figures.changes)},
          {"finish_time_ratio_mean", figures.finish_time_ratio_mean},
          {"finish_time_ratio_max", figures.finish_time_ratio_max},
          {"wall_s", run.wall_s}};
}

}  // namespace

std::string cost_name(const Cost& cost) {
  switch (cost.kind) {
    case Cost::Kind::kNone:
      return "none";
    case Cost::Kind::kSwap:
      return "swap:" + exact(cost.start_s);
    case Cost::Kind::kRestart:
      return "restart:" + exact(cost.start_s);
    case Cost::Kind::kMuri:
      return "muri";
  }
  return "";
}

std::string simulation_table(const std::vector<SimulatedRun>& runs) {
  Table table({{"trace"},
               {"policy"},
               {"GPUs", Align::kRight},
               {"jobs", Align::kRight},
               {"mean s", Align::kRight},
               {"median s", Align::kRight},
               {"p99 s", Align::kRight},
               {"makespan s", Align::kRight},
               {"used %", Align::kRight},
               {"changes/job", Align::kRight},
               {"unfair", Align::kRight}});
  for (const SimulatedRun& run : runs) {
    const auto& figures = run.figures;
    table.add_row({run.trace->name + (run.trace->vc.empty() ? "" : " " + run.trace->vc), run.policy->name,
                   std::to_string(run.options.slots), std::to_string(figures.jobs), fixed(figures.mean_jct_s, 0),
                   fixed(figures.median_jct_s, 0), fixed(figures.p99_jct_s, 0), fixed(figures.makespan_s, 0),
                   fixed(100 * figures.utilization, 1),
                   fixed(static_cast<double>(figures.changes) / static_cast<double>(figures.jobs), 2),
                   fixed(figures.finish_time_ratio_mean, 2)});
  }
  return table.render();
}

std::string simulation_csv(const std::vector<SimulatedRun>& runs) {
  std::string text =
      "trace,vc,policy,gpus,cost,seed,jobs,avg_jct_s,median_jct_s,p99_jct_s,max_jct_s,makespan_s,utilization,decisions,"
      "changes,finish_time_ratio_mean,finish_time_ratio_max,wall_s\n";
  for (const SimulatedRun& run : runs) {
    std::vector<std::string> cells = {
        csv_cell(run.trace->name),         csv_cell(run.trace->vc),     run.policy->name,
        std::to_string(run.options.slots), cost_name(run.options.cost), std::to_string(run.options.seed)};
    for (const auto& [name, value] : numbers_of(run)) cells.push_back(exact(value));
    text += joined(cells);
  }
  return text;
}

std::string simulation_json(const std::vector<SimulatedRun>& runs) {
  auto rows = nlohmann::ordered_json::array();
  for (const SimulatedRun& run : runs) {
    nlohmann::ordered_json row = {{"trace", run.trace->name},
                                  {"vc", run.trace->vc},
                                  {"policy", run.policy->name},
                                  {"gpus", run.options.slots},
                                  {"cost", cost_name(run.options.cost)},
                                  {"seed", run.options.seed}};
    for (const auto& [name, value] : numbers_of(run)) row[name] = value;
    rows.push_back(std::move(row));
  }
  return rows.dump(1) + "\n";
}

std::string simulated_jobs_csv(const SimulatedRun& run) {
  std::string text = "job_id,arrival_s,first_start_s,completion_s,jct_s,gpu_s,changes,suspensions,finish_time_ratio\n";
  for (const JobResult& result : run.outcome.jobs) {
    const auto& job = run.trace->jobs[result.job];
    text += joined({csv_cell(job.id), exact(job.arrival_s), exact(result.first_start_s), exact(result.completion_s),
                    exact(result.completion_s - job.arrival_s), exact(result.slot_s), std::to_string(result.changes),
                    std::to_string(result.suspensions), exact(result.finish_time_ratio)});
  }
  return text;
}

std::string simulated_jobs_name(const SimulatedRun& run) {
  return run.trace->name + (run.trace->vc.empty() ? "" : "-" + run.trace->vc) + "-" + run.policy->name + "-" +
         std::to_string(run.options.slots) + ".csv";
}

}  // namespace elastictrain::cli
