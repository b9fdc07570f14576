#include "tests/golden/worker_samples.h"

namespace elastictrain::core {

void WorkerSamples::steps(WorkerId id, Millis step_time) {
  Worker& worker = workers_[id];
  worker.step_time = step_time;
  worker.stopped = false;
  worker.works = true;
  worker.heartbeat.place = protocol::StepPlace::kComputing;
  if (worker.heartbeat.step == 0) worker.heartbeat.step = 100;
}

void WorkerSamples::stands(WorkerId id, protocol::StepPlace place, bool works) {
  Worker& worker = workers_[id];
  worker.step_time = Millis(0);
  worker.elapsed = Millis(0);
  worker.works = works;
  worker.heartbeat.place = place;
}

void WorkerSamples::stops(WorkerId id) {
  workers_[id].stopped = true;
}

void WorkerSamples::at(WorkerId id, Step step, std::uint64_t epoch) {
  protocol::WorkerHeartbeat& heartbeat = workers_[id].heartbeat;
  heartbeat.step = step;
  heartbeat.epoch = epoch;
}

void WorkerSamples::advance(Worker& worker) {
  if (worker.stopped) {
    worker.quiet += kPeriod;
    return;
  }
  protocol::WorkerHeartbeat& heartbeat = worker.heartbeat;
  worker.quiet = Millis(0);
  worker.cpu_ms += worker.works ? static_cast<std::uint64_t>(kPeriod.count()) : 1;
  ++heartbeat.sequence;
  heartbeat.steps = 0;
  worker.elapsed += kPeriod;
  while (worker.step_time.count() > 0 && worker.elapsed >= worker.step_time) {
    worker.elapsed -= worker.step_time;
    ++heartbeat.steps;
    ++heartbeat.step;
    heartbeat.mean.step_us = static_cast<double>(worker.step_time.count()) * 1000;
  }
  heartbeat.place_ms = static_cast<std::uint64_t>(worker.elapsed.count());
}

protocol::AgentReport WorkerSamples::report(AgentId agent, const std::map<WorkerId, Generation>& assignments) {
  protocol::AgentReport report;
  for (auto& [id, worker] : workers_) {
    if (agents_[id] != agent) continue;
    if (const auto assignment = assignments.find(id); assignment != assignments.end())
      worker.heartbeat.generation = assignment->second;
    advance(worker);
    if (worker.stopped && worker.quiet < 2 * kPeriod) continue;
    report.workers.push_back(
        {id, static_cast<std::uint64_t>(worker.quiet.count()), worker.heartbeat, worker.cpu_ms, worker.stopped});
  }
  return report;
}

}  // namespace elastictrain::core
