#include "cli/output/status_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/output/figures.h"
#include "cli/output/table.h"

namespace elastictrain::cli {
namespace {

using Json = nlohmann::json;

// A worker whose compute time exceeds the median by this factor slows the others down.
constexpr double kSlowFactor = 1.2;

double number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string whole(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? format_number(found->get<double>(), 0) : "-";
}

std::string milliseconds(const Json& object, const char* name) {
  const double value = number(object, name);
  return value > 0 ? format_number(value, value < 10 ? 2 : 1) : "-";
}

const Json& list(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

// Of the workers that compute.
double lower_median(const Json& workers, const char* name) {
  std::vector<double> values;
  for (const Json& worker : workers) {
    if (number(worker, "compute_ms") > 0) values.push_back(number(worker, name));
  }
  if (values.size() < 2) return 0;
  // The lower median: with two workers the slower one is compared with the faster one.
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Usual {
  double compute_ms = 0;
  double data_wait_ms = 0;
  double step_ms = 0;
};

std::string remark(const Json& worker, const Usual& usual) {
  const std::string phase = text(worker, "program_phase");
  if (!phase.empty()) return phase + " for " + format_number(number(worker, "program_phase_ms") / 1000, 1) + " s";
  const double compute = number(worker, "compute_ms");
  if (usual.compute_ms <= 0) return "";
  if (compute >= usual.compute_ms * kSlowFactor) {
    return "slow: computes " + format_number(compute / usual.compute_ms, 1) + " times as long as the others";
  }
  const double waits = number(worker, "data_wait_ms") - usual.data_wait_ms;
  if (waits < usual.step_ms * (kSlowFactor - 1)) return "";
  return "waits for its data: " + format_number(waits, 1) + " ms a step longer than the others";
}

// The workers of a program that does not use the library run from their start, and no generation has them.
bool is_plain(const Json& status) {
  return text(status, "phase") == "running" && number(status, "generation") < 1;
}

std::string worker_phase(const Json& worker, bool plain) {
  const std::string phase = text(worker, "phase");
  return plain && phase == "starting" ? "running" : phase;
}

std::string render_workers(const Json& status) {
  const bool plain = is_plain(status);
  const Json& workers = list(status, "workers");
  const Usual usual{lower_median(workers, "compute_ms"), lower_median(workers, "data_wait_ms"),
                    lower_median(workers, "step_ms")};
  Table table({{"rank", Align::kRight},
               {"worker"},
               {"host"},
               {"slot", Align::kRight},
               {"phase"},
               {"pid", Align::kRight},
               {"share", Align::kRight},
               {"step", Align::kRight},
               {"step ms", Align::kRight},
               {"compute", Align::kRight},
               {"data", Align::kRight},
               {"comm", Align::kRight},
               {"quiet ms", Align::kRight},
               {""}});
  for (const Json& worker : workers) {
    table.add_row({whole(worker, "rank"), "w" + whole(worker, "id"), text(worker, "host"), whole(worker, "slot"),
                   worker_phase(worker, plain), whole(worker, "pid"), whole(worker, "share"), whole(worker, "step"),
                   milliseconds(worker, "step_ms"), milliseconds(worker, "compute_ms"),
                   milliseconds(worker, "data_wait_ms"), milliseconds(worker, "communicate_ms"),
                   whole(worker, "quiet_ms"), remark(worker, usual)});
  }
  return table.empty() ? "" : "\n" + table.render();
}

std::string render_hosts(const Json& status) {
  Table table({{"host"},
               {"phase"},
               {"workers", Align::kRight},
               {"slots", Align::kRight},
               {"warm", Align::kRight},
               {"quiet ms", Align::kRight}});
  for (const Json& host : list(status, "hosts")) {
    table.add_row({text(host, "host"), text(host, "phase"), whole(host, "workers"), whole(host, "slots"),
                   std::to_string(list(host, "warm").size()), whole(host, "quiet_ms")});
  }
  return table.empty() ? "" : "\n" + table.render();
}

std::string render_head(const Json& status) {
  std::string head =
      text(status, "name") + ": " + text(status, "phase") + ", " + whole(status, "world_size") + " workers";
  if (number(status, "target_size") != number(status, "world_size"))
    head += " (target " + whole(status, "target_size") + ")";
  if (!is_plain(status)) head += ", generation " + whole(status, "generation");
  return head + ", up " + format_duration(number(status, "uptime_s")) + "\n";
}

std::string render_training(const Json& status) {
  if (number(status, "step") <= 0) return "";
  const double percent = number(status, "epoch_fraction") * 100;
  return "training: epoch " + format_number(number(status, "epoch") + 1, 0) + " " + format_number(percent, 0) +
         "%, step " + whole(status, "step") + ", loss " + format_loss(number(status, "loss")) + ", " +
         format_count(number(status, "samples_per_s")) + " samples/s, batch " + whole(status, "global_batch") +
         ", learning rate x" + format_number(number(status, "learning_rate_factor"), 2) + "\n";
}

std::string held_of(const Json& status) {
  const auto held = status.find("held");
  if (held == status.end() || !held->is_boolean() || !held->get<bool>()) return "";
  const bool for_a_time = status.contains("held_left_ms") && status["held_left_ms"].is_number();
  return whole(status, "target_size") + " by a user" +
         (for_a_time ? " for another " + format_duration(number(status, "held_left_ms") / 1e3) : "") +
         "; `elastictrain resize auto` gives the size back to the policy";
}

std::string efficiency_of(const Json& status) {
  if (!status.contains("throughput_efficiency") || !status["throughput_efficiency"].is_number()) return "";
  return format_number(number(status, "throughput_efficiency"), 2) + ": samples a second of a worker, against " +
         whole(status, "efficiency_of_size") + (number(status, "efficiency_of_size") > 1 ? " workers" : " worker");
}

std::string cost_of(const Json& status) {
  const double hours = number(status, "worker_seconds") / 3600;
  if (hours <= 0) return "";
  const std::string paid = format_number(hours, hours < 10 ? 3 : 0) + " worker-hours";
  return number(status, "cost") > 0 ? format_number(number(status, "cost"), 2) + " for " + paid : paid;
}

std::string idle_of(const Json& status) {
  const bool known = status.contains("last_idle_s") && status["last_idle_s"].is_number();
  return format_duration(number(status, "idle_s")) + ", the last " +
         (known ? format_duration(number(status, "last_idle_s")) : "-");
}

// "step 400, 12 s ago; 3 failures since: no space left".
std::string checkpoint_of(const Json& status) {
  const auto found = status.find("checkpoint");
  if (found == status.end() || !found->is_object()) return "";
  const double failures = number(*found, "failures");
  const bool is_there = found->contains("step") && (*found)["step"].is_number();
  if (!is_there && failures < 1) return "";
  const bool timed = found->contains("age_s") && (*found)["age_s"].is_number();
  std::string out = is_there ? "step " + whole(*found, "step") : "none yet";
  if (timed) out += ", " + format_duration(number(*found, "age_s")) + " ago";
  if (failures < 1) return out;
  return out + "; " + format_number(failures, 0) + (failures > 1 ? " failures" : " failure") +
         (is_there ? " since: " : ": ") + text(*found, "reason");
}

std::string recoveries_of(const Json& status) {
  if (number(status, "recoveries") < 1) return "";
  const bool known = status.contains("last_recovery_idle_s") && status["last_recovery_idle_s"].is_number();
  const std::string why = text(status, "last_recovery");
  return whole(status, "recoveries") + ", the last" + (why.empty() ? "" : ": " + why) + ", idle " +
         (known ? format_duration(number(status, "last_recovery_idle_s")) : "-");
}

// "crash 2 (8 more are tolerated), infrastructure 1".
std::string failures_of(const Json& status) {
  std::string out;
  for (const Json& failure : list(status, "failures")) {
    out += (out.empty() ? "" : ", ") + text(failure, "class") + " " + whole(failure, "total");
    const bool limited = failure.contains("limit") && failure["limit"].is_number();
    if (!limited) continue;
    const double left = std::max(0.0, number(failure, "limit") - number(failure, "within_window"));
    out += " (" + (left > 0 ? format_number(left, 0) + " more" : std::string("no more")) + " are tolerated)";
  }
  return out;
}

std::string cooled_of(const Json& status) {
  std::string out;
  for (const Json& cooled : list(status, "cooled_hosts")) {
    out += (out.empty() ? "" : "; ") + text(cooled, "host") + " for " +
           format_duration(number(cooled, "left_ms") / 1e3) + " after " + whole(cooled, "failures") +
           " failures in a row: " + text(cooled, "reason");
  }
  return out;
}

}  // namespace

std::string render_status(const Json& status) {
  std::string out = render_head(status) + render_training(status);
  const auto line = [&](const char* title, const std::string& value) {
    if (!value.empty()) out += std::string(title) + value + "\n";
  };
  line("checkpoint: ", checkpoint_of(status));
  line("", text(status, "waits"));
  line("why this size: ", text(status, "size_reason"));
  line("held: ", held_of(status));
  if (!text(status, "policy").empty()) {
    line("policy: ", text(status, "policy") + ": " + text(status, "policy_reason"));
  }
  line("throughput efficiency: ", efficiency_of(status));
  line("cost: ", cost_of(status));
  line("last change: ", text(status, "last_change"));
  if (number(status, "generation") > 1) line("idle for changes: ", idle_of(status));
  line("", text(status, "protection"));
  line("failures: ", failures_of(status));
  line("recoveries: ", recoveries_of(status));
  line("cooling down: ", cooled_of(status));
  return out + render_workers(status) + render_hosts(status);
}

}  // namespace elastictrain::cli
