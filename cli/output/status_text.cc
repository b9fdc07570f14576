#include "cli/output/status_text.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/output/explanation.h"
#include "cli/output/figures.h"
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

namespace {

using Json = nlohmann::json;

// A worker whose compute time exceeds the median by this factor slows the others down.
constexpr double kSlowFactor = 1.2;
// A worker or a host that has said nothing for this long: they report several times a second.
constexpr double kSilentMs = 1000;
constexpr std::size_t kMostNamed = 3;

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

std::string duration(const Json& object, const char* name) {
  const double ms = number(object, name);
  return ms > 0 ? format_duration(ms / 1e3) : "-";
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

std::string silence(const Json& object) {
  const double quiet_ms = number(object, "quiet_ms");
  return quiet_ms < kSilentMs ? "" : "silent for " + format_duration(quiet_ms / 1e3);
}

std::string remark(const Json& worker, const Usual& usual) {
  const std::string phase = text(worker, "program_phase");
  if (!phase.empty()) return phase + " for " + format_duration(number(worker, "program_phase_ms") / 1e3);
  if (text(worker, "phase") == "member" && !silence(worker).empty()) return silence(worker);
  const double compute = number(worker, "compute_ms");
  if (usual.compute_ms <= 0) return "";
  if (compute >= usual.compute_ms * kSlowFactor) {
    return "slow: computes " + format_number(compute / usual.compute_ms, 1) + " times as long as the others";
  }
  const double waits = number(worker, "data_wait_ms") - usual.data_wait_ms;
  if (waits < usual.step_ms * (kSlowFactor - 1)) return "";
  return "waits for its data: " + format_duration(waits / 1e3) + " a step longer than the others";
}

// The workers of a program that does not use the library run from their start, and no generation has them.
bool is_plain(const Json& status) {
  return text(status, "phase") == "running" && number(status, "generation") < 1;
}

std::string worker_phase(const Json& worker, bool plain) {
  const std::string phase = text(worker, "phase");
  return plain && phase == "starting" ? "running" : phase;
}

// Of those that are equally slow, and of those that do not train, the status has the order.
std::vector<const Json*> slowest_first(const Json& workers) {
  std::vector<const Json*> sorted;
  for (const Json& worker : workers) sorted.push_back(&worker);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Json* a, const Json* b) { return number(*a, "compute_ms") > number(*b, "compute_ms"); });
  return sorted;
}

std::string render_workers(const Json& status, const Room& room) {
  const bool plain = is_plain(status);
  const Json& workers = list(status, "workers");
  const Usual usual{lower_median(workers, "compute_ms"), lower_median(workers, "data_wait_ms"),
                    lower_median(workers, "step_ms")};
  Table table({{"rank", Align::kRight},
               {"worker", Align::kLeft, 2},
               {"host"},
               {"slot", Align::kRight, 7},
               {"phase"},
               {"pid", Align::kRight, 1},
               {"batch", Align::kRight, 6},
               {"step", Align::kRight, 3},
               {"step time", Align::kRight},
               {"compute", Align::kRight},
               {"data", Align::kRight, 5},
               {"comm", Align::kRight, 4},
               {""}});
  for (const Json* each : slowest_first(workers)) {
    const Json& worker = *each;
    table.add_row({whole(worker, "rank"), "w" + whole(worker, "id"), text(worker, "host"), whole(worker, "slot"),
                   worker_phase(worker, plain), whole(worker, "pid"), whole(worker, "share"), whole(worker, "step"),
                   duration(worker, "step_ms"), duration(worker, "compute_ms"), duration(worker, "data_wait_ms"),
                   duration(worker, "communicate_ms"), plain ? "" : remark(worker, usual)});
  }
  return table.empty() ? "" : "\n" + table.render(room);
}

// Of the worker whose GPU has the least room: it is where the next change fails first.
std::string render_devices(const Json& status) {
  const Json* fullest = nullptr;
  for (const Json& worker : list(status, "workers")) {
    const auto device = worker.find("device");
    if (device == worker.end() || !device->is_object()) continue;
    if (fullest == nullptr || number(*device, "free_bytes") < number((*fullest)["device"], "free_bytes"))
      fullest = &worker;
  }
  if (fullest == nullptr) return "";
  const Json& device = (*fullest)["device"];
  const auto gb = [&](const char* key) { return format_number(number(device, key) / 1e9, 2) + " GB"; };
  return "\nGPU memory: " + gb("free_bytes") + " of " + gb("total_bytes") + " are free on that of rank " +
         whole(*fullest, "rank") + ", which has the least; " + gb("copies_bytes") +
         " hold copies of gradients, from which a step is repeated after a loss, " + gb("sums_bytes") + " sums\n";
}

std::string render_hosts(const Json& status, const Room& room) {
  Table table(
      {{"host"}, {"phase"}, {"workers", Align::kRight}, {"slots", Align::kRight}, {"warm", Align::kRight, 1}, {""}});
  for (const Json& host : list(status, "hosts")) {
    const std::string phase = text(host, "phase");
    const bool is_watched = phase == "up" || phase == "suspect" || phase == "reconnecting" || phase == "draining";
    table.add_row({text(host, "host"), phase, whole(host, "workers"), whole(host, "slots"),
                   std::to_string(list(host, "warm").size()), is_watched ? silence(host) : ""});
  }
  return table.empty() ? "" : "\n" + table.render(room);
}

std::string counted(double count, const char* one, const char* many) {
  return format_number(count, 0) + (count == 1 ? one : many);
}

std::string render_head(const Json& status) {
  std::string head = text(status, "name") + ": " + text(status, "phase") + ", " +
                     counted(number(status, "world_size"), " worker", " workers");
  if (status.contains("per_replica")) head += " of " + whole(status, "per_replica") + " processes each";
  if (number(status, "target_size") != number(status, "world_size"))
    head += " (target " + whole(status, "target_size") + ")";
  if (!is_plain(status)) head += ", generation " + whole(status, "generation");
  return head + ", up " + format_duration(number(status, "uptime_s")) + "\n";
}

bool is_number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number();
}

std::string length_of(const Json& status) {
  if (!is_number(status, "expected_samples")) {
    return expected_length_text(std::nullopt, text(status, "no_expected_length"));
  }
  const auto left =
      is_number(status, "expected_left_s") ? std::optional(number(status, "expected_left_s")) : std::nullopt;
  return expected_length_text(std::pair(number(status, "expected_samples"), number(status, "expected_error_samples")),
                              "", left);
}

std::string render_training(const Json& status) {
  if (number(status, "step") <= 0) return "";
  const double percent = number(status, "epoch_fraction") * 100;
  const std::string of = number(status, "epochs") > 0 ? " of " + whole(status, "epochs") : "";
  const std::string left =
      is_number(status, "time_left_s") ? ", " + format_duration(number(status, "time_left_s")) + " left" : "";
  const std::string expected = length_of(status);
  const double loss = number(status, "loss");
  const std::string loss_text = is_reported(loss) ? ", loss " + format_loss(loss) : "";
  return "training: epoch " + format_number(number(status, "epoch") + 1, 0) + of + " " + format_number(percent, 0) +
         "%, step " + whole(status, "step") + left + loss_text + ", " + format_count(number(status, "samples_per_s")) +
         " samples/s, global batch " + whole(status, "global_batch") + ", learning rate x" +
         format_number(number(status, "learning_rate_factor"), 2) + "\n" + expected;
}

std::string held_of(const Json& status) {
  const auto held = status.find("held");
  if (held == status.end() || !held->is_boolean() || !held->get<bool>()) return "";
  return whole(status, "target_size") + " by a user" +
         (is_number(status, "held_left_ms") ? " for another " + format_duration(number(status, "held_left_ms") / 1e3)
                                            : "") +
         "; `elastictrain resize auto` gives the size back to the policy";
}

std::string efficiency_of(const Json& status) {
  if (!is_number(status, "scaling_efficiency")) return "";
  return format_number(number(status, "scaling_efficiency"), 2) + " against " +
         counted(number(status, "efficiency_of_size"), " worker", " workers");
}

std::string cost_of(const Json& status) {
  const double hours = number(status, "worker_seconds") / 3600;
  if (hours <= 0) return "";
  const std::string paid = format_number(hours, hours < 10 ? 3 : 0) + " worker-hours";
  return number(status, "cost") > 0 ? format_number(number(status, "cost"), 2) + " for " + paid : paid;
}

std::string ago(const Json& object, const char* name) {
  return is_number(object, name) ? ", " + format_duration(number(object, name)) + " ago" : "";
}

// "step 400, 12 s ago; 3 failures since: no space left".
std::string checkpoint_of(const Json& status) {
  const auto found = status.find("checkpoint");
  if (found == status.end() || !found->is_object()) return "";
  const double failures = number(*found, "failures");
  const bool is_there = is_number(*found, "step");
  if (!is_there && failures < 1) return "";
  const std::string out = (is_there ? "step " + whole(*found, "step") : "none yet") + ago(*found, "age_s");
  if (failures < 1) return out;
  return out + "; " + counted(failures, " failure", " failures") + (is_there ? " since: " : ": ") +
         text(*found, "reason");
}

// "generation 4: grow from 2 to 3 workers: requested by a user, 12.0 s ago, idle 12.0 ms, 34.0 ms in all changes".
std::string last_of(const Json& status) {
  const std::string change = text(status, "last_change");
  if (change.empty()) return "";
  std::string out = change + ago(status, "last_change_age_s");
  if (number(status, "generation") < 2) return out;
  if (is_number(status, "last_idle_s")) out += ", idle " + format_duration(number(status, "last_idle_s"));
  return out + ", " + format_duration(number(status, "idle_s")) + " in all changes";
}

// The last one is told here if other changes have followed.
std::string recoveries_of(const Json& status) {
  if (number(status, "recoveries") < 1) return "";
  const std::string why = text(status, "last_recovery");
  if (why.empty() || text(status, "last_change").ends_with(why)) return whole(status, "recoveries");
  return whole(status, "recoveries") + ", the last: " + why +
         (is_number(status, "last_recovery_idle_s")
              ? ", idle " + format_duration(number(status, "last_recovery_idle_s"))
              : "");
}

// "crash 2 (8 more are tolerated), infrastructure 1".
std::string failures_of(const Json& status) {
  std::string out;
  for (const Json& failure : list(status, "failures")) {
    out += (out.empty() ? "" : ", ") + text(failure, "class") + " " + whole(failure, "total");
    if (!is_number(failure, "limit")) continue;
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

// Those that cool down are told with their failures.
std::string lost_of(const Json& status) {
  std::string out;
  for (const Json& host : list(status, "hosts")) {
    const std::string why = text(host, "problem");
    if (text(host, "phase") == "lost" && !why.empty())
      out += (out.empty() ? "" : "; ") + text(host, "host") + ": " + why;
  }
  return out;
}

// "w3 on node1, w4 on node1 and 2 more workers to start; node2 to reconnect".
std::string awaited_of(const Json& status) {
  std::vector<std::string> starting;
  for (const Json& worker : list(status, "workers")) {
    if (text(worker, "phase") == "starting")
      starting.push_back("w" + whole(worker, "id") + " on " + text(worker, "host"));
  }
  if (is_plain(status)) starting.clear();
  std::string out;
  for (std::size_t i = 0; i < std::min(starting.size(), kMostNamed); ++i) out += (i > 0 ? ", " : "") + starting[i];
  if (starting.size() > kMostNamed)
    out += " and " + counted(static_cast<double>(starting.size() - kMostNamed), " more worker", " more workers");
  if (!out.empty()) out += " to start";
  for (const Json& host : list(status, "hosts")) {
    if (text(host, "phase") == "reconnecting") out += (out.empty() ? "" : "; ") + text(host, "host") + " to reconnect";
    if (text(host, "phase") == "launching") out += (out.empty() ? "" : "; ") + text(host, "host") + " to answer";
  }
  return out;
}

// What the last change says already is not said twice.
std::string size_reason_of(const Json& status) {
  const std::string reason = text(status, "size_reason");
  return text(status, "last_change").ends_with(": " + reason) ? "" : reason;
}

}  // namespace

std::string render_status(const Json& status, const Room& room) {
  std::string out = render_head(status);
  const auto line = [&](const char* title, const std::string& value) {
    if (!value.empty()) out += std::string(title) + value + "\n";
  };
  line("why this size: ", size_reason_of(status));
  line("grow refused: ", text(status, "grow_refused"));
  line("held: ", held_of(status));
  if (!text(status, "policy").empty()) {
    line("policy: ", text(status, "policy") + ": " + text(status, "policy_reason"));
  }
  out += render_training(status);
  line("scaling efficiency: ", efficiency_of(status));
  line("cost: ", cost_of(status));
  line("checkpoint: ", checkpoint_of(status));
  line("last change: ", last_of(status));
  line("failures: ", failures_of(status));
  line("recoveries: ", recoveries_of(status));
  line("", text(status, "waits"));
  line("waits for: ", awaited_of(status));
  line("not reached: ", text(status, "unmet"));
  line("start failed: ", text(status, "start_failure"));
  line("lost hosts: ", lost_of(status));
  line("cooling down: ", cooled_of(status));
  out += render_workers(status, room) + render_devices(status) + render_hosts(status, room);
  line("\n", text(status, "protection"));
  return out;
}

}  // namespace elastictrain::cli
