#include "launcher/agent/agent_identity.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "launcher/agent/private_directory.h"
#include "launcher/process/process_mark.h"
#include "launcher/process/process_stat.h"
#include "supervisor/protocol/fnv1a.h"

namespace elastictrain::launcher {
namespace {

constexpr const char* kFileName = "agent";

struct Identity {
  std::string run;
  std::string host;
  std::uint32_t agent = 0;
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
};

// A hash: the file must not hold the key, and any process that can read it could also read the agent's memory.
std::string run_mark(const protocol::AgentBootstrap& bootstrap) {
  return std::to_string(protocol::fnv1a(bootstrap.key));
}

std::optional<Identity> read_identity(const std::filesystem::path& directory) {
  std::ifstream file(directory / kFileName);
  Identity identity;
  file >> identity.run >> identity.agent >> identity.pid >> identity.start_ticks >> std::ws;
  if (!file || !std::getline(file, identity.host)) return std::nullopt;
  return identity;
}

}  // namespace

void write_identity(const std::string& directory, const protocol::AgentBootstrap& bootstrap) {
  const auto stat = read_process_stat(::getpid());
  if (!stat) return;
  std::ofstream file(directory + "/" + kFileName);
  file << run_mark(bootstrap) << ' ' << bootstrap.agent.value << ' ' << ::getpid() << ' ' << stat->start_ticks << '\n'
       << bootstrap.host << '\n';
}

int end_older_agents(const std::string& own_directory, const protocol::AgentBootstrap& bootstrap) {
  const std::string run = run_mark(bootstrap);
  int ended = 0;
  for (const auto& directory : agent_directories(std::filesystem::path(own_directory).parent_path())) {
    if (directory == own_directory) continue;
    const auto identity = read_identity(directory);
    if (!identity || identity->run != run || identity->host != bootstrap.host) continue;
    if (identity->agent < bootstrap.agent.value && signal_started(identity->pid, identity->start_ticks, SIGKILL))
      ++ended;
  }
  return ended;
}

}  // namespace elastictrain::launcher
