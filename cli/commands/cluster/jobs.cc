#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/cluster_text.h"
#include "cli/output/terminal.h"
#include "supervisor/protocol/json_text.h"

// `elastictrain queue`: the jobs of a cluster.

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

// `elastictrain cancel`, `pause`, `resume` and `priority`: orders about a job of a cluster.
namespace {

struct OrderFlags {
  std::string cluster;
  std::vector<std::string> words;
};

int order_each(const std::string& command, const OrderFlags& flags) {
  int status = 0;
  for (const std::string& job : flags.words) {
    const int one = show_answer(command, ask_cluster(flags.cluster, {{"command", command}, {"job", job}}));
    status = status == 0 ? one : status;
  }
  return status;
}

Command job_order(Invocation& invocation, const std::string& name, const std::string& help) {
  const auto flags = std::make_shared<OrderFlags>();
  const auto choose = [&invocation, flags, name]() -> Status {
    if (flags->words.empty()) return wrong_usage("name a job: elastictrain " + name + " j1");
    invocation.action = [flags, name] { return order_each(name, *flags); };
    return {};
  };
  return {name,
          help,
          kGroupCluster,
          {words("jobs", "JOB...", "ids or names of jobs, as queue shows them", flags->words),
           cluster_flag(flags->cluster)},
          choose};
}

}  // namespace

Command make_cancel(Invocation& invocation) {
  return job_order(invocation, "cancel", "end jobs, or take them out of the queue");
}

Command make_pause(Invocation& invocation) {
  return job_order(invocation, "pause", "suspend jobs with a checkpoint, or keep them from starting");
}

Command make_resume(Invocation& invocation) {
  return job_order(invocation, "resume", "let paused jobs go on");
}

Command make_priority(Invocation& invocation) {
  const auto flags = std::make_shared<OrderFlags>();
  const auto choose = [&invocation, flags]() -> Status {
    const bool two = flags->words.size() == 2;
    const std::string text = two ? flags->words[1] : "";
    const bool below = text.starts_with("-");
    const auto number = parse_whole_number(below ? std::string_view(text).substr(1) : std::string_view(text));
    if (!two || !number || *number > 1000) {
      return wrong_usage("give a job and a whole number from -1000 to 1000: elastictrain priority j1 5");
    }
    const auto priority = static_cast<std::int64_t>(*number) * (below ? -1 : 1);
    invocation.action = [flags, priority] {
      return show_answer(
          "priority",
          ask_cluster(flags->cluster, {{"command", "priority"}, {"job", flags->words[0]}, {"priority", priority}}));
    };
    return {};
  };
  return {
      "priority",
      "change the priority of a job; higher ones go first",
      kGroupCluster,
      {words("job", "JOB N", "id or name of the job, and its priority", flags->words), cluster_flag(flags->cluster)},
      choose};
}

}  // namespace elastictrain::cli
