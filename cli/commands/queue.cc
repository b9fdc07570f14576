// `elastictrain queue`: the jobs of a cluster.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/output/cluster_text.h"
#include "cli/output/one_line.h"
#include "cli/output/style.h"
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

int show_queue(const QueueFlags& flags) {
  const ClusterAnswer answer = ask_cluster(flags.cluster, {{"command", "queue"}});
  if (answer.status != 0) return show_answer("queue", answer);
  const auto& cluster = answer.object["cluster"];
  if (flags.json) {
    std::cout << json_text(cluster) << "\n";
  } else {
    std::cout << render_queue(in_one_line(cluster), flags.all, room_of(STDOUT_FILENO));
  }
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

int watch_queue(const QueueFlags& flags) {
  for (;;) {
    if (!clear_terminal()) return kExitFailure;
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
