#include "train/session/environment.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "train/checkpoint/lineage.h"

namespace elastictrain::session {
namespace {

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Reads variables and keeps the first error.
class Numbers {
 public:
  std::uint64_t read(const char* name, std::uint64_t fallback, std::uint64_t max) {
    const std::string value = text(name);
    if (value.empty()) return fallback;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (!whole || number > max) {
      complain(std::string(name) + "=" + value + " is not a number from 0 to " + std::to_string(max));
      return fallback;
    }
    return number;
  }

  void complain(std::string what) {
    if (status_.ok()) status_ = Error{ErrorCode::kInvalid, std::move(what) + "; unset it or correct it"};
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

std::vector<std::string> split_commas(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (comma != 0) parts.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return parts;
}

std::atomic<bool> has_connected{false};

std::string node_name() {
  if (auto name = text("PEER_NODE"); !name.empty()) return name;
  char host[256] = {};
  return gethostname(host, sizeof host - 1) == 0 ? host : "host";
}

void read_choices(Environment& environment, Numbers& numbers) {
  const std::string transport = text("ELASTICTRAIN_TRANSPORT");
  if (transport == "tcp")
    environment.transport = comm::Transport::kTcpOnly;
  else if (!transport.empty() && transport != "auto") {
    numbers.complain("ELASTICTRAIN_TRANSPORT=" + transport + " is neither auto nor tcp");
  }
  const std::string encryption = text("ELASTICTRAIN_ENCRYPTION");
  if (const auto level = protocol::encryption_named(encryption))
    environment.encryption = *level;
  else if (!encryption.empty()) {
    numbers.complain("ELASTICTRAIN_ENCRYPTION=" + encryption + " is neither none, integrity nor full");
  }
  const std::string backend = text("ELASTICTRAIN_BACKEND");
  if (backend == "nccl")
    environment.backend = Backend::kNccl;
  else if (backend == "mpi")
    environment.backend = Backend::kMpi;
  else if (backend == "cpu")
    environment.backend = Backend::kCpu;
  else if (!backend.empty() && backend != "auto") {
    numbers.complain("ELASTICTRAIN_BACKEND=" + backend + " is neither auto, cpu, mpi nor nccl");
  }
  const std::string build = text("ELASTICTRAIN_NCCL_BUILD");
  if (build == "at-swap")
    environment.nccl_build = comm::NcclBuild::kAtSwap;
  else if (build == "shrink")
    environment.nccl_build = comm::NcclBuild::kShrink;
  else if (!build.empty() && build != "auto" && build != "background") {
    numbers.complain("ELASTICTRAIN_NCCL_BUILD=" + build + " is neither auto, background, at-swap nor shrink");
  }
  const std::string wire = text("ELASTICTRAIN_GRADIENT_WIRE");
  environment.exchanges_narrow = wire != "float32";
  if (!wire.empty() && wire != "auto" && wire != "float32") {
    numbers.complain("ELASTICTRAIN_GRADIENT_WIRE=" + wire + " is neither auto nor float32");
  }
  const std::string algorithm = text("ELASTICTRAIN_ALGORITHM");
  if (algorithm == "ring")
    environment.algorithm = comm::Algorithm::kRing;
  else if (algorithm == "tree")
    environment.algorithm = comm::Algorithm::kTree;
  else if (!algorithm.empty() && algorithm != "auto") {
    numbers.complain("ELASTICTRAIN_ALGORITHM=" + algorithm + " is neither auto, ring nor tree");
  }
}

}  // namespace

void mark_as_connected() {
  ::unsetenv("ELASTICTRAIN_SOCKET");
  has_connected = true;
}

bool was_connected() {
  return has_connected;
}

Result<Environment> read_environment() {
  constexpr std::uint64_t kDay = 86'400'000;
  constexpr std::uint64_t kMaxProcessors = 1'000'000;
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  Environment environment;
  Numbers numbers;
  environment.is_part = numbers.read("ELASTICTRAIN_REPLICA_HOST", 0, 0xffff) != 0;
  environment.socket_path = text("ELASTICTRAIN_SOCKET");
  environment.worker.value = static_cast<std::uint32_t>(numbers.read("ELASTICTRAIN_WORKER_ID", 0, 0xffff'ffff));
  environment.job_id = text("ELASTICTRAIN_JOB_ID");
  environment.world_size = static_cast<std::uint32_t>(numbers.read("WORLD_SIZE", 0, 0xffff'ffff));
  environment.slot = static_cast<std::uint32_t>(numbers.read("ELASTICTRAIN_SLOT", 0, 0xffff));
  environment.host_key = text("ELASTICTRAIN_HOST_KEY");
  environment.bind_addresses = split_commas(text("ELASTICTRAIN_BIND"));
  environment.heartbeat = std::chrono::milliseconds(numbers.read("ELASTICTRAIN_HEARTBEAT_MS", 250, kDay));
  environment.orphan_grace = std::chrono::milliseconds(numbers.read("ELASTICTRAIN_ORPHAN_GRACE_MS", 60'000, kDay));
  environment.audit_every = numbers.read("ELASTICTRAIN_AUDIT_EVERY", 0, kAny);
  environment.step_log_directory = text("ELASTICTRAIN_STEP_LOG");
  environment.node = node_name();
  environment.checkpoint_directory = text("ELASTICTRAIN_CHECKPOINT_DIR");
  environment.checkpoint_client.program = text("ELASTICTRAIN_CHECKPOINT_CLIENT");
  environment.checkpoint_client.timeout =
      std::chrono::milliseconds(numbers.read("ELASTICTRAIN_CHECKPOINT_CLIENT_TIMEOUT_MS", 1'800'000, kDay));
  environment.checkpoint_every = numbers.read("ELASTICTRAIN_CHECKPOINT_EVERY", 0, kAny);
  environment.checkpoint_keep = numbers.read("ELASTICTRAIN_CHECKPOINT_KEEP", 3, 1'000'000);
  environment.checkpoint_timeout =
      std::chrono::milliseconds(numbers.read("ELASTICTRAIN_CHECKPOINT_TIMEOUT_MS", 60'000, kDay));
  const auto lineage = checkpoint::parse_lineage(text("ELASTICTRAIN_LINEAGE"));
  if (lineage) {
    environment.lineage = *lineage;
  } else {
    numbers.complain("ELASTICTRAIN_LINEAGE: " + lineage.error().message);
  }
  environment.resume = numbers.read("ELASTICTRAIN_RESUME", 0, 1) == 1;
  environment.saved_step = numbers.read("ELASTICTRAIN_SAVED_STEP", 0, kAny);
  environment.round = std::chrono::milliseconds(numbers.read("ELASTICTRAIN_ROUND_MS", 0, kDay));
  environment.monitors = numbers.read("ELASTICTRAIN_MONITORS", 1, 1) == 1;
  environment.keep_gradients = numbers.read("ELASTICTRAIN_KEEP_GRADIENTS", 1, 1) == 1;
  read_choices(environment, numbers);
  environment.processors = numbers.read("ELASTICTRAIN_PROCESSORS", 0, kMaxProcessors);
  environment.mpi_init_timeout =
      std::chrono::milliseconds(numbers.read("ELASTICTRAIN_MPI_INIT_TIMEOUT_MS", 50'000, kDay));
  environment.mpi_finalize_timeout =
      std::chrono::milliseconds(numbers.read("ELASTICTRAIN_MPI_FINALIZE_TIMEOUT_MS", 5'000, kDay));
  const auto usr1 = text("ELASTICTRAIN_USR1");
  environment.usr1_is_notice = usr1 == "notice";
  if (!usr1.empty() && usr1 != "notice") numbers.complain("ELASTICTRAIN_USR1 must be notice, or not set");
  // MPI does not take a process in again and treats an exit before the others as an error.
  environment.parks = numbers.read("ELASTICTRAIN_PARKS", environment.backend == Backend::kMpi ? 1 : 0, 1) == 1;
  if (environment.heartbeat.count() == 0) numbers.complain("ELASTICTRAIN_HEARTBEAT_MS must be at least 1");
  if (!environment.socket_path.empty() && environment.worker.value == 0) {
    numbers.complain("ELASTICTRAIN_SOCKET is set but ELASTICTRAIN_WORKER_ID is not");
  }
  if (!numbers.status()) return numbers.status().error();
  return environment;
}

}  // namespace elastictrain::session
