#include "supervisor/control/run_status.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::control {
namespace {

// Written by hand: building a document of 100,000 workers as a tree of nodes exceeds the time budget of a status.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }

  void raw(const char* name, const std::string& value) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
    out_ += value;
  }
  void text(const char* name, const std::string& value) { raw(name, quoted_json(value)); }
  void number(const char* name, std::uint64_t value) { raw(name, std::to_string(value)); }
  void real(const char* name, double value) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.9g", std::isfinite(value) ? value : 0.0);
    raw(name, buffer);
  }
  void optional(const char* name, const std::optional<double>& value) {
    if (value)
      real(name, *value);
    else
      raw(name, "null");
  }
  void close() { out_ += '}'; }

 private:
  std::string& out_;
  bool first_ = true;
};

double ms(double us) {
  return us / 1000.0;
}

void append_metrics(ObjectWriter& object, const protocol::StepMetrics& metrics) {
  for (const protocol::StepMetric& metric : protocol::kStepMetrics) {
    const double value = metrics.*metric.value;
    const bool is_time = metric.unit == protocol::StepUnit::kMicroseconds;
    object.real((std::string(metric.name) + (is_time ? "_ms" : "_bytes")).c_str(), is_time ? ms(value) : value);
  }
}

void append_device(ObjectWriter& object, const protocol::DeviceMemoryUse& use) {
  std::string out;
  ObjectWriter device(out);
  device.number("total_bytes", use.total_bytes);
  device.number("free_bytes", use.free_bytes);
  device.number("copies_bytes", use.copies_bytes);
  device.number("sums_bytes", use.sums_bytes);
  device.close();
  object.raw("device", use.total_bytes == 0 ? "null" : out);
}

void append_worker(std::string& out, const core::WorkerView& worker, const StatusFacts& facts) {
  const protocol::WorkerHeartbeat& beat = worker.heartbeat;
  const auto pid = facts.pids.find(worker.worker);
  ObjectWriter object(out);
  object.number("id", worker.worker.value);
  object.raw("rank", worker.rank ? std::to_string(*worker.rank) : "null");
  object.text("host", worker.host);
  object.number("slot", worker.slot);
  object.text("phase", name_of(worker.phase));
  object.text("program_phase", std::string(protocol::name_of(beat.phase)));
  object.number("program_phase_ms", beat.phase == protocol::ProgramPhase::kNone ? 0 : beat.place_ms);
  object.number("generation", beat.generation);
  object.number("step", beat.step);
  append_metrics(object, beat.mean);
  object.number("share", worker.share);
  object.number("quiet_ms", worker.quiet_ms);
  object.raw("pid", std::to_string(pid == facts.pids.end() ? 0 : pid->second));
  append_device(object, beat.device);
  object.close();
}

template <class List, class Append>
std::string array_of(const List& list, Append append) {
  std::string out = "[";
  for (const auto& element : list) {
    if (out.size() > 1) out += ',';
    append(out, element);
  }
  return out + "]";
}

void append_warm(std::string& out, const protocol::WarmProcess& process) {
  ObjectWriter object(out);
  object.number("was", process.worker.value);
  object.number("slot", process.slot);
  object.raw("pid", std::to_string(process.pid));
  object.close();
}

void append_host(std::string& out, const core::AgentView& agent, Instant now) {
  const bool received = agent.last_seen != Instant{} && agent.last_seen < now;
  const auto quiet = received ? std::chrono::duration_cast<Millis>(now - agent.last_seen).count() : 0;
  ObjectWriter object(out);
  object.text("host", agent.host);
  object.text("agent", to_string(agent.agent));
  object.number("slots", agent.slots);
  object.number("workers", agent.workers);
  object.text("phase", name_of(agent.phase));
  object.number("quiet_ms", static_cast<std::uint64_t>(quiet));
  object.raw("warm", array_of(agent.warm, append_warm));
  object.text("problem", agent.problem);
  object.close();
}

void append_failure(std::string& out, const core::FailureView& failure) {
  ObjectWriter object(out);
  object.text("class", failure.name);
  object.number("total", failure.total);
  object.number("within_window", failure.within_window);
  object.raw("limit", failure.limit == core::kUnlimited ? "null" : std::to_string(failure.limit));
  object.close();
}

void append_cooled(std::string& out, const core::CooledHostView& cooled) {
  ObjectWriter object(out);
  object.text("host", cooled.host);
  object.number("failures", cooled.failures);
  object.number("left_ms", cooled.left_ms);
  object.text("reason", cooled.reason);
  object.close();
}

std::string checkpoint_of(const CheckpointFigures& checkpoint) {
  std::string out;
  ObjectWriter object(out);
  object.raw("step", checkpoint.step ? std::to_string(*checkpoint.step) : "null");
  object.optional("age_s", checkpoint.age_s);
  object.number("failures", checkpoint.failures);
  object.text("reason", checkpoint.reason);
  object.close();
  return out;
}

}  // namespace

const char* name_of(core::WorkerPhase phase) {
  switch (phase) {
    case core::WorkerPhase::kStarting:
      return "starting";
    case core::WorkerPhase::kSpare:
      return "spare";
    case core::WorkerPhase::kJoining:
      return "joining";
    case core::WorkerPhase::kMember:
      return "member";
    case core::WorkerPhase::kLeaving:
      return "leaving";
    case core::WorkerPhase::kGone:
      return "gone";
  }
  return "unknown";
}

namespace {

void append_desired_state(ObjectWriter& object, const RunFigures& figures) {
  const core::RunView& view = figures.view;
  object.text("name", view.run_name);
  object.text("phase", name_of(view.phase));
  object.number("generation", view.generation);
  object.number("world_size", view.world_size);
  object.number("target_size", view.target_size);
  object.number("new_members", view.new_members);
  if (!view.grow_refused.empty()) object.text("grow_refused", view.grow_refused);
  object.text("unmet", view.unmet);
  object.text("start_failure", view.start_failure);
  object.raw("held", view.held ? "true" : "false");
  object.raw("held_left_ms", view.held_left_ms ? std::to_string(*view.held_left_ms) : "null");
  object.number("batch_per_worker", view.batch.per_worker);
  object.number("global_batch", view.global_batch);
  object.real("learning_rate_factor", view.learning_rate_factor);
  object.text("topology", protocol::text_of(view.topology, view.parents));
  object.text("synchronization", std::string(protocol::name_of(view.synchronization)));
  object.text("size_reason", view.size_reason);
  object.text("waits", figures.waits);
  object.number("lease", view.lease ? view.lease->version : 0);
}

void append_training(ObjectWriter& object, const RunFigures& figures) {
  const core::RunView& view = figures.view;
  object.text("last_change", view.last_change);
  object.optional("last_change_age_s", figures.last_change_age_s);
  object.text("policy", figures.policy);
  object.text("policy_reason", figures.policy_reason);
  object.real("worker_seconds", figures.worker_seconds);
  object.real("cost", figures.cost);
  object.optional("scaling_efficiency", figures.scaling_efficiency);
  object.number("efficiency_of_size", figures.smallest_size);
  object.real("uptime_s", figures.uptime_s);
  object.number("epoch", figures.epoch);
  object.number("epochs", view.epochs);
  object.real("epoch_fraction", figures.epoch_fraction);
  object.optional("time_left_s", figures.time_left_s);
  object.optional("expected_samples", figures.expected_samples);
  object.optional("expected_error_samples", figures.expected_error_samples);
  object.optional("expected_left_s", figures.expected_left_s);
  object.text("no_expected_length", figures.no_expected_length);
  object.number("step", figures.step);
  object.real("loss", figures.loss);
  object.real("samples_per_s", figures.samples_per_s);
  object.real("idle_s", figures.idle_s);
  object.optional("last_idle_s", figures.last_idle_s);
}

}  // namespace

std::string status_answer(const RunFigures& figures, const StatusFacts& facts) {
  const core::RunView& view = figures.view;
  std::string out = R"({"ok":true,"status":)";
  ObjectWriter object(out);
  append_desired_state(object, figures);
  append_training(object, figures);
  if (facts.per_replica > 1) object.number("per_replica", facts.per_replica);
  object.text("protection", facts.protection);
  object.text("journal", facts.journal);
  object.raw("checkpoint", checkpoint_of(figures.checkpoint));
  object.number("recoveries", figures.recoveries);
  object.text("last_recovery", figures.last_recovery);
  object.optional("last_recovery_idle_s", figures.last_recovery_idle_s);
  object.raw("failures", array_of(view.failures, append_failure));
  object.raw("cooled_hosts", array_of(view.cooled_hosts, append_cooled));
  object.raw("workers", array_of(view.workers, [&](std::string& to, const core::WorkerView& worker) {
               append_worker(to, worker, facts);
             }));
  object.raw("hosts", array_of(view.agents, [&](std::string& to, const core::AgentView& agent) {
               append_host(to, agent, facts.now);
             }));
  object.close();
  return out + "}";
}

}  // namespace elastictrain::control
