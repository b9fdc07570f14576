#include "cli/metrics/run_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::cli::metrics {
namespace {

constexpr std::size_t kMaxKinds = 64;  // idle times arrive some generations later
constexpr double kMicrosecond = 1e-6;

std::vector<double> step_limits_s() {
  std::vector<double> limits;
  for (double power = 0.001; power < 500; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) limits.push_back(power * factor);
  }
  return limits;
}

Family gauge(const char* name, const char* help, double value) {
  return {name, Kind::kGauge, help, {{"", {}, value}}};
}

Family counter(const char* name, const char* help, double value) {
  return {name, Kind::kCounter, help, {{"", {}, value}}};
}

template <class Number>
Family by_label(const char* name, const char* help, const char* label, const std::map<std::string, Number>& values) {
  Family family{name, Kind::kCounter, help};
  for (const auto& [value, number] : values) {
    family.samples.push_back({"", {{label, value}}, static_cast<double>(number)});
  }
  return family;
}

struct WorkerPart {
  const char* name;
  double protocol::StepMetrics::*value;
};
constexpr WorkerPart kWorkerParts[] = {{"compute", &protocol::StepMetrics::compute_us},
                                       {"data_wait", &protocol::StepMetrics::data_wait_us},
                                       {"communicate", &protocol::StepMetrics::communicate_us},
                                       {"update", &protocol::StepMetrics::update_us}};

bool trains(const core::WorkerView& worker) {
  return worker.phase == core::WorkerPhase::kMember && worker.rank.has_value();
}

}  // namespace

RunMetrics::RunMetrics(std::string run_name, std::string version)
    : common_{{"run", std::move(run_name)}}, version_(std::move(version)), step_seconds_(step_limits_s()) {}

void RunMetrics::add_figures(const RunFigures& figures) {
  last_ = figures;
  add_steps();
}

// All members take the same steps, so the first one's heartbeats stand for the run.
void RunMetrics::add_steps() {
  if (last_.view.workers.empty() || !trains(last_.view.workers.front())) return;
  const core::WorkerView& worker = last_.view.workers.front();
  const protocol::WorkerHeartbeat& heartbeat = worker.heartbeat;
  samples_ = heartbeat.samples_used > 0 ? heartbeat.samples_used : samples_;
  const bool same = worker.worker == counted_worker_;
  if (same && heartbeat.sequence == counted_sequence_) return;
  counted_worker_ = worker.worker;
  counted_sequence_ = heartbeat.sequence;
  if (heartbeat.steps > 0) step_seconds_.add(heartbeat.mean.step_us * kMicrosecond, heartbeat.steps);
}

void RunMetrics::add_record(const core::Record& record) {
  record.visit([this](const auto& about) { on(about); });
}

void RunMetrics::on(const core::record::GenerationComplete& complete) {
  const char* kind = core::change_name(complete.kind);
  kinds_[complete.generation] = kind;
  if (kinds_.size() > kMaxKinds) kinds_.erase(kinds_.begin());
  ++changes_[kind];
}

void RunMetrics::on(const core::record::Idle& idle) {
  const auto kind = kinds_.find(idle.generation);
  const double seconds = idle.idle_ms / 1e3;
  // A change that cost nothing is counted too: 0 is what one wants to see.
  if (std::isfinite(seconds)) idle_s_[kind == kinds_.end() ? "other" : kind->second] += std::max(0.0, seconds);
}

void RunMetrics::on(const core::record::Note& note) {
  if (note.key == protocol::kCheckpointFailed) ++checkpoint_failures_;
}

void RunMetrics::add_size(std::vector<Family>& families) const {
  families.push_back({"elastictrain_run_info",
                      Kind::kGauge,
                      "The version of elastictrain; always 1.",
                      {{"", {{"version", version_}}, 1}}});
  Family phase{"elastictrain_run_phase", Kind::kGauge, "1 for the phase that the run is in."};
  for (const auto one : {core::RunPhase::kStarting, core::RunPhase::kRunning, core::RunPhase::kChanging,
                         core::RunPhase::kStopping, core::RunPhase::kEnded}) {
    phase.samples.push_back({"", {{"phase", core::name_of(one)}}, one == last_.view.phase ? 1.0 : 0.0});
  }
  families.push_back(std::move(phase));
  families.push_back(gauge("elastictrain_workers", "World size of the present generation.", last_.view.world_size));
  families.push_back(gauge("elastictrain_workers_target", "Desired number of workers.", last_.view.target_size));
  families.push_back(gauge("elastictrain_generation", "Number of the present generation.",
                           static_cast<double>(last_.view.generation)));
  std::map<std::string, double> hosts;
  for (const core::AgentView& agent : last_.view.agents) hosts[core::name_of(agent.phase)] += 1;
  Family host_states{"elastictrain_hosts", Kind::kGauge, "Number of hosts by the state of their agents."};
  for (const auto& [name, number] : hosts) host_states.samples.push_back({"", {{"phase", name}}, number});
  families.push_back(std::move(host_states));
  families.push_back(
      gauge("elastictrain_uptime_seconds", "Time for which the run has been supervised.", last_.uptime_s));
}

void RunMetrics::add_progress(std::vector<Family>& families) const {
  families.push_back(counter("elastictrain_steps", "Committed steps; falls when a run starts from a checkpoint.",
                             static_cast<double>(last_.step)));
  families.push_back(counter("elastictrain_samples", "Samples of committed steps.", static_cast<double>(samples_)));
  families.push_back(gauge("elastictrain_epochs_done", "Epochs, with the part of the present one.",
                           static_cast<double>(last_.epoch) + last_.epoch_fraction));
  families.push_back(gauge("elastictrain_samples_per_second", "Throughput of the whole run.", last_.samples_per_s));
  families.push_back(gauge("elastictrain_loss", "Loss of the last committed step.", last_.loss));
  families.push_back(gauge("elastictrain_batch_samples", "Samples of all workers in one step.",
                           static_cast<double>(last_.view.global_batch)));
  if (last_.scaling_efficiency) {
    families.push_back(gauge("elastictrain_scaling_efficiency_ratio",
                             "Throughput of a worker, relative to that at the smallest size of the run.",
                             *last_.scaling_efficiency));
  }
  families.push_back({"elastictrain_step_seconds", Kind::kHistogram,
                      "Time of a step; the mean of the steps between two heartbeats counts for each.",
                      step_seconds_.samples()});
}

void RunMetrics::add_changes(std::vector<Family>& families) const {
  families.push_back(
      by_label("elastictrain_changes", "Generations that began, by the kind of change.", "change", changes_));
  families.push_back(by_label("elastictrain_idle_seconds",
                              "Time in which no worker made progress because of a change, by its kind.", "change",
                              idle_s_));
  families.push_back(by_label("elastictrain_losses", "Losses of workers and hosts, by class.", "class", losses_));
  families.push_back(counter("elastictrain_recoveries", "Recoveries after losses.", static_cast<double>(recoveries_)));
  families.push_back(counter("elastictrain_takeovers", "Supervisors that took the run over from an earlier one.",
                             static_cast<double>(takeovers_)));
  families.push_back(counter("elastictrain_checkpoint_failures", "Checkpoints that could not be written.",
                             static_cast<double>(checkpoint_failures_)));
  if (last_.checkpoint.step) {
    families.push_back(gauge("elastictrain_checkpoint_step", "Step of the newest good checkpoint.",
                             static_cast<double>(*last_.checkpoint.step)));
  }
  if (last_.checkpoint.age_s) {
    families.push_back(
        gauge("elastictrain_checkpoint_age_seconds", "Age of the newest good checkpoint.", *last_.checkpoint.age_s));
  }
  families.push_back(counter("elastictrain_worker_seconds", "Time of all workers together, paid for also while idle.",
                             last_.worker_seconds));
  families.push_back(counter("elastictrain_cost", "Cost of these, in the unit of the configured prices.", last_.cost));
}

void RunMetrics::add_workers(std::vector<Family>& families) const {
  if (last_.view.world_size > kMaxSingleWorkers) return;
  Family parts{"elastictrain_worker_step_part_seconds", Kind::kGauge,
               "Parts of a step of one worker, means since its last heartbeat."};
  for (const core::WorkerView& worker : last_.view.workers) {
    if (!trains(worker)) continue;
    for (const WorkerPart& part : kWorkerParts) {
      parts.samples.push_back({"",
                               {{"rank", std::to_string(*worker.rank)}, {"host", worker.host}, {"part", part.name}},
                               worker.heartbeat.mean.*part.value * kMicrosecond});
    }
  }
  families.push_back(std::move(parts));
}

std::vector<Family> RunMetrics::families() const {
  std::vector<Family> families;
  add_size(families);
  add_progress(families);
  add_changes(families);
  add_workers(families);
  return families;
}

std::string RunMetrics::text(Format format) const {
  return exposition(families(), common_, format);
}

}  // namespace elastictrain::cli::metrics
