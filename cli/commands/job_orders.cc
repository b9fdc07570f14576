// `elastictrain cancel`, `pause`, `resume` and `priority`: orders about a job of a cluster.
#include <memory>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
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
