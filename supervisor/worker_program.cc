#include "supervisor/worker_program.h"

#include <algorithm>
#include <string_view>

namespace elastictrain {
namespace {

constexpr std::string_view kOmpThreads = "OMP_NUM_THREADS=";

bool sets_omp_threads(const std::vector<std::string>& environment) {
  return std::any_of(environment.begin(), environment.end(),
                     [](const std::string& entry) { return entry.rfind(kOmpThreads, 0) == 0; });
}

// "3:1,5:120": a generation and the first step it took part in.
std::string lineage_text(const std::vector<protocol::Fence>& lineage) {
  std::string text;
  for (const protocol::Fence& fence : lineage) {
    text += (text.empty() ? "" : ",") + std::to_string(fence.generation) + ":" + std::to_string(fence.first_step);
  }
  return text;
}

}  // namespace

std::vector<std::string> worker_environment(const core::SpawnWorker& spawn, const WorkerSurroundings& around) {
  const std::uint32_t nodes = std::max(around.node_count, spawn.node_rank + 1);
  std::vector<std::string> environment;
  const auto set = [&](const char* name, const std::string& value) {
    environment.push_back(std::string(name) + "=" + value);
  };
  set("RANK", std::to_string(spawn.rank));
  set("LOCAL_RANK", std::to_string(spawn.local_rank));
  set("WORLD_SIZE", std::to_string(spawn.world_size));
  set("LOCAL_WORLD_SIZE", std::to_string(spawn.local_world_size));
  set("GROUP_RANK", std::to_string(spawn.node_rank));
  set("GROUP_WORLD_SIZE", std::to_string(nodes));
  set("NODE_RANK", std::to_string(spawn.node_rank));
  set("ROLE_NAME", "default");
  set("ROLE_RANK", std::to_string(spawn.rank));
  set("ROLE_WORLD_SIZE", std::to_string(spawn.world_size));
  set("MASTER_ADDR", around.master_address);
  set("MASTER_PORT", std::to_string(around.master_port));
  set("TORCHELASTIC_RUN_ID", around.run_name);
  set("TORCHELASTIC_RESTART_COUNT", std::to_string(around.restarts));
  set("TORCHELASTIC_MAX_RESTARTS", std::to_string(around.max_restarts));
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 serves torch's store at MASTER_ADDR
  set("ELASTICTRAIN_JOB_ID", around.run_name);
  set("ELASTICTRAIN_GENERATION", std::to_string(around.generation));
  set("ELASTICTRAIN_WORKER_ID", std::to_string(spawn.worker.value));
  set("ELASTICTRAIN_SLOT", std::to_string(spawn.slot));
  set("ELASTICTRAIN_SLOTS", std::to_string(spawn.slots));
  set("ELASTICTRAIN_ROLE", "worker");
  if (!around.omp_threads_chosen && !sets_omp_threads(around.user_environment) && spawn.local_world_size > 1) {
    environment.push_back(std::string(kOmpThreads) + "1");
  }
  environment.insert(environment.end(), around.user_environment.begin(), around.user_environment.end());
  if (spawn.from_checkpoint) {
    set("ELASTICTRAIN_RESUME", "1");
    set("ELASTICTRAIN_LINEAGE", lineage_text(spawn.lineage));
    if (around.saved_step) set("ELASTICTRAIN_SAVED_STEP", std::to_string(*around.saved_step));
  }
  return environment;
}

}  // namespace elastictrain
