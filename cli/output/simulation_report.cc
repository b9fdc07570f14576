#include "cli/output/simulation_report.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/output/table.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/json_text.h"

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

namespace {

using cluster::replay::Agreement;
using cluster::replay::Given;
using cluster::replay::Past;
using cluster::replay::PastJob;
using cluster::replay::Prediction;

std::string signed_percent(double part) {
  char text[64];
  std::snprintf(text, sizeof(text), "%+.1f %%", 100 * part);
  return text;
}

std::string sizes_text(const std::vector<std::uint32_t>& sizes) {
  std::string text;
  for (const std::uint32_t size : sizes) text += (text.empty() ? "" : " ") + std::to_string(size);
  return text;
}

// One job: what happened and what is predicted.
struct Pair {
  const PastJob* job;
  std::optional<double> live_s, predicted_s;  // from its submission to its end
  std::vector<std::uint32_t> live_sizes, predicted_sizes;

  std::optional<double> difference() const {
    if (!live_s || !predicted_s || *live_s <= 0) return std::nullopt;
    return *predicted_s / *live_s - 1;
  }
};

std::vector<Pair> pairs_of(const Past& past, const Prediction& prediction) {
  std::vector<Pair> pairs;
  auto live = by_job(past.given), predicted = by_job(prediction.given);
  for (const PastJob& job : past.jobs) {
    Pair pair{&job, {}, {}, sizes_of(live[job.id]), sizes_of(predicted[job.id])};
    if (job.ended_s) pair.live_s = *job.ended_s - job.submitted_s;
    const auto ended = prediction.ended_s.find(job.id);
    if (ended != prediction.ended_s.end()) pair.predicted_s = ended->second - job.submitted_s;
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// Over the jobs of which both are known.
struct Means {
  double live_s = 0, predicted_s = 0, largest = 0;
  std::size_t jobs = 0;
};
Means means_of(const std::vector<Pair>& pairs) {
  Means means;
  for (const Pair& pair : pairs) {
    const auto difference = pair.difference();
    if (!difference) continue;
    ++means.jobs;
    means.live_s += *pair.live_s;
    means.predicted_s += *pair.predicted_s;
    if (std::abs(*difference) > std::abs(means.largest)) means.largest = *difference;
  }
  if (means.jobs > 0) means.live_s /= static_cast<double>(means.jobs);
  if (means.jobs > 0) means.predicted_s /= static_cast<double>(means.jobs);
  return means;
}

std::string given_text(const std::optional<Given>& given) {
  if (!given) return "nothing more";
  return std::to_string(given->slots) + " at " + fixed(given->at_s, 1) + " s";
}

std::string agreement_text(const Agreement& agreement) {
  std::string text = "sizes: " + std::to_string(agreement.equal) + " of " + std::to_string(agreement.of) + " as live";
  if (agreement.all()) return text + "\n";
  const cluster_core::JobId job = agreement.first_live ? agreement.first_live->job : agreement.first_predicted->job;
  return text + "; first other one: " + cluster_core::id_text(job) + " was given " + given_text(agreement.first_live) +
         ", predicted " + given_text(agreement.first_predicted) + "\n";
}

std::string summary_of(const Past& past, const Prediction& prediction, const std::vector<Pair>& pairs) {
  const Means means = means_of(pairs);
  if (means.jobs == 0) return "no job has ended in both\n";
  const bool is_own = prediction.policy == past.policy;
  std::string text = "mean completion " + fixed(means.live_s, 1) + " s, predicted " + fixed(means.predicted_s, 1) +
                     " s (" + signed_percent(means.predicted_s / means.live_s - 1) + "; most " +
                     signed_percent(means.largest) + ")\n";
  const auto live_share = trained_share(past);
  if (live_share && prediction.trained_share) {
    text += "slots train " + fixed(100 * *live_share, 1) + " % of the time that jobs hold them, predicted " +
            fixed(100 * *prediction.trained_share, 1) + " %\n";
  }
  return is_own ? text + agreement_text(agreement_of(past.given, prediction.given)) : text;
}

std::string table_of(const Past& past, const Prediction& prediction) {
  Table table({{"job"},
               {"name"},
               {"live s", Align::kRight},
               {"predicted s", Align::kRight},
               {"difference", Align::kRight},
               {"sizes live"},
               {"predicted"}});
  const std::vector<Pair> pairs = pairs_of(past, prediction);
  for (const Pair& pair : pairs) {
    const auto seconds = [](const std::optional<double>& value) { return value ? fixed(*value, 1) : "-"; };
    const auto difference = pair.difference();
    table.add_row({cluster_core::id_text(pair.job->id), pair.job->name, seconds(pair.live_s), seconds(pair.predicted_s),
                   difference ? signed_percent(*difference) : "-", sizes_text(pair.live_sizes),
                   pair.live_sizes == pair.predicted_sizes ? "the same" : sizes_text(pair.predicted_sizes)});
  }
  const bool is_own = prediction.policy == past.policy;
  return prediction.policy + (is_own ? ", as live" : "; live: " + past.policy) + "\n" + table.render() +
         summary_of(past, prediction, pairs);
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json given_json(const std::vector<Given>& given) {
  auto list = nlohmann::ordered_json::array();
  for (const Given& one : given) {
    list.push_back({{"at_s", one.at_s}, {"job", cluster_core::id_text(one.job)}, {"slots", one.slots}});
  }
  return list;
}

}  // namespace

std::string replay_table(const ReplayReport& report) {
  std::string text;
  for (const Prediction& prediction : report.predictions) {
    text += (text.empty() ? "" : "\n") + table_of(report.past, prediction);
  }
  return text;
}

std::string replay_csv(const ReplayReport& report) {
  std::string text = "live_policy,policy,job,name,live_s,predicted_s,live_sizes,predicted_sizes\n";
  for (const Prediction& prediction : report.predictions) {
    for (const Pair& pair : pairs_of(report.past, prediction)) {
      const auto seconds = [](const std::optional<double>& value) { return value ? fixed(*value, 3) : ""; };
      text += report.past.policy + "," + prediction.policy + "," + cluster_core::id_text(pair.job->id) + "," +
              csv_cell(pair.job->name) + "," + seconds(pair.live_s) + "," + seconds(pair.predicted_s) + "," +
              sizes_text(pair.live_sizes) + "," + sizes_text(pair.predicted_sizes) + "\n";
    }
  }
  return text;
}

std::string replay_json(const ReplayReport& report) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Prediction& prediction : report.predictions) {
    const Agreement agreement = agreement_of(report.past.given, prediction.given);
    Json one = {{"live_policy", report.past.policy},
                {"policy", prediction.policy},
                {"sizes_as_live", agreement.equal},
                {"sizes", agreement.of},
                {"live_trained_share", or_null(trained_share(report.past))},
                {"predicted_trained_share", or_null(prediction.trained_share)},
                {"jobs", Json::array()},
                {"live_given", given_json(report.past.given)},
                {"predicted_given", given_json(prediction.given)}};
    for (const Pair& pair : pairs_of(report.past, prediction)) {
      one["jobs"].push_back({{"job", cluster_core::id_text(pair.job->id)},
                             {"name", pair.job->name},
                             {"live_s", or_null(pair.live_s)},
                             {"predicted_s", or_null(pair.predicted_s)},
                             {"live_sizes", pair.live_sizes},
                             {"predicted_sizes", pair.predicted_sizes}});
    }
    list.push_back(std::move(one));
  }
  return list.dump(2) + "\n";
}

}  // namespace elastictrain::cli
