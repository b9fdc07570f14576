// `elastictrain queue`: the jobs of a cluster.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::seconds kWatchEvery{1};

struct QueueFlags {
  std::string cluster;
  bool json = false;
  bool watch = false;
  bool all = false;
};

std::string progress_of(const nlohmann::json& job) {
  const double samples = job.value("samples", 0.0), total = job.value("samples_total", 0.0);
  if (total > 0) return std::to_string(std::lround(100 * std::min(1.0, samples / total))) + "%";
  return samples > 0 ? "step " + std::to_string(job.value("step", 0ULL)) : "";
}

std::string state_of(const nlohmann::json& job) {
  const std::string phase = job.value("phase", "");
  if (phase == "ended") return "ended (" + std::to_string(job.value("status", 0)) + ")";
  if (job.value("paused", false)) return "paused";
  if (!job["overdue"].empty()) return "overdue";
  if (phase != "joined") return phase;
  const std::string run_phase = job.value("run_phase", "");  // empty before its first report
  return job.value("slots", 0) == 0 ? "waiting" : run_phase.empty() ? phase : run_phase;
}

std::string render_jobs(const nlohmann::json& cluster, bool all) {
  Table table({{"job"},
               {"name"},
               {"user"},
               {"state"},
               {"slots", Align::kRight},
               {"sizes"},
               {"prio", Align::kRight},
               {"done", Align::kRight},
               {"ends in", Align::kRight},
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
  return table.render();
}

std::string render_queue(const nlohmann::json& cluster, bool all) {
  std::string text = "cluster " + cluster.value("name", "") + ": policy " + cluster.value("policy", "") + ", " +
                     std::to_string(cluster.value("leased", 0)) + " of " + std::to_string(cluster.value("slots", 0)) +
                     " slots leased, " + std::to_string(cluster["waiting"].size()) + " jobs wait\n";
  if (cluster.value("resuming", false)) text += "it was started again and waits for its runs; nothing is decided yet\n";
  if (cluster.value("journal_fails", false)) text += "its journal cannot be written; it takes no jobs\n";
  return text + render_jobs(cluster, all);
}

int show_queue(const QueueFlags& flags) {
  const ClusterAnswer answer = ask_cluster(flags.cluster, {{"command", "queue"}});
  if (answer.status != 0) return show_answer("queue", answer);
  const auto& cluster = answer.object["cluster"];
  if (flags.json) {
    std::cout << json_text(cluster) << "\n";
  } else {
    std::cout << render_queue(cluster, flags.all);
  }
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

int watch_queue(const QueueFlags& flags) {
  for (;;) {
    if (::isatty(STDOUT_FILENO) != 0) std::cout << "\033[H\033[2J";
    if (const int status = show_queue(flags); status != kExitSuccess) return status;
    std::this_thread::sleep_for(kWatchEvery);
  }
}

}  // namespace

Command make_queue(Invocation& invocation) {
  const auto flags = std::make_shared<QueueFlags>();
  return {"queue",
          "the jobs of a cluster: who, sizes, progress, and why each has the slots that it has",
          kGroupCluster,
          {flag("--all", "also jobs that have ended", flags->all),
           flag("--json", "everything, as one JSON object", flags->json),
           flag("--watch", "again every second", flags->watch), cluster_flag(flags->cluster)},
          always(invocation, [flags] { return flags->watch ? watch_queue(*flags) : show_queue(*flags); })};
}

}  // namespace elastictrain::cli
