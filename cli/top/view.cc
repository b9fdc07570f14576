#include "cli/top/view.h"

#include "cli/output/printable.h"

namespace elastictrain::cli::top {
namespace {

using Json = nlohmann::json;

double real(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::int64_t whole(const Json& object, const char* name) {
  const double value = real(object, name);
  return value > -1e15 && value < 1e15 ? static_cast<std::int64_t>(value) : 0;
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>(), Lines::kOne) : "";
}

const Json& list(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kNone;
}

Worker worker_of(const Json& json) {
  Worker worker;
  worker.id = whole(json, "id");
  const auto rank = json.find("rank");
  if (rank != json.end() && rank->is_number()) worker.rank = whole(json, "rank");
  worker.host = text(json, "host");
  worker.phase = text(json, "phase");
  worker.doing = text(json, "program_phase");
  worker.step = whole(json, "step");
  worker.pid = whole(json, "pid");
  worker.step_ms = real(json, "step_ms");
  worker.compute_ms = real(json, "compute_ms");
  worker.data_ms = real(json, "data_wait_ms");
  worker.communicate_ms = real(json, "communicate_ms");
  worker.quiet_ms = real(json, "quiet_ms");
  return worker;
}

}  // namespace

View view_of(const Json& status) {
  View view;
  if (!status.is_object()) return view;
  view.name = text(status, "name");
  view.phase = text(status, "phase");
  view.world_size = whole(status, "world_size");
  view.target_size = whole(status, "target_size");
  view.generation = whole(status, "generation");
  view.uptime_s = real(status, "uptime_s");
  view.epoch = real(status, "epoch");
  view.epochs = whole(status, "epochs");
  view.epoch_fraction = real(status, "epoch_fraction");
  const auto left = status.find("time_left_s");
  if (left != status.end() && left->is_number()) view.time_left_s = left->get<double>();
  view.step = whole(status, "step");
  view.loss = real(status, "loss");
  view.samples_per_s = real(status, "samples_per_s");
  const auto efficiency = status.find("scaling_efficiency");
  if (efficiency != status.end() && efficiency->is_number()) view.efficiency = efficiency->get<double>();
  view.cost = real(status, "cost");
  view.worker_seconds = real(status, "worker_seconds");
  view.idle_s = real(status, "idle_s");
  view.recoveries = whole(status, "recoveries");
  view.size_reason = text(status, "size_reason");
  view.last_change = text(status, "last_change");
  view.journal = text(status, "journal");
  for (const Json& worker : list(status, "workers")) {
    if (worker.is_object()) view.workers.push_back(worker_of(worker));
  }
  for (const Json& host : list(status, "hosts")) {
    if (!host.is_object()) continue;
    view.hosts.push_back({text(host, "host"), text(host, "phase"), whole(host, "workers"), whole(host, "slots")});
  }
  return view;
}

}  // namespace elastictrain::cli::top
