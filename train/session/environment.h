// Purpose: the settings that the agent passes to a worker through its environment, read once and checked. Failure: an
// invalid value is an Error that names the variable.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/checkpoint/target.h"
#include "train/comm/communicator.h"
#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::session {

// What carries the sums. In host memory: MPI's messages for kMpi, otherwise our own data plane. In device memory: NCCL
// if every member has it (kAuto) or always (kNccl); otherwise sums are staged through host memory.
enum class Backend : std::uint8_t { kAuto, kCpu, kMpi, kNccl };

struct Environment {
  bool is_part = false;     // of a worker on several hosts, and not its process with the session
  std::string socket_path;  // empty: no launcher
  WorkerId worker;
  std::string job_id;
  std::uint32_t world_size = 0;  // expected, with this worker; 0: unknown
  std::uint32_t slot = 0;        // on its host, fixed for its lifetime; selects its GPU
  std::string host_key;
  std::vector<std::string> bind_addresses;
  std::chrono::milliseconds heartbeat{250};
  std::chrono::milliseconds orphan_grace{60'000};
  std::uint64_t audit_every = 0;  // hash every N steps; 0: no audit
  std::string step_log_directory;
  std::string node;  // for the step log
  Backend backend = Backend::kAuto;
  comm::NcclBuild nccl_build = comm::NcclBuild::kBackground;
  bool exchanges_narrow = true;  // gradients of 16 bits travel between GPUs in 16 bits, otherwise in float32
  std::size_t processors = 0;    // of all workers of this host, if the agent binds each to some
  std::chrono::milliseconds mpi_init_timeout{50'000};
  std::chrono::milliseconds mpi_finalize_timeout{5'000};
  bool usr1_is_notice = false;  // for the agent: it does not end this process
  bool parks = false;           // the process outlives its worker and may become another one
  comm::Transport transport = comm::Transport::kAuto;
  protocol::Encryption encryption = protocol::Encryption::kNone;
  comm::Algorithm algorithm = comm::Algorithm::kAuto;
  std::string checkpoint_directory;
  checkpoint::Client checkpoint_client;
  std::uint64_t checkpoint_every = 0;  // steps; 0: only at the end
  std::size_t checkpoint_keep = 3;
  std::chrono::milliseconds checkpoint_timeout{60'000};  // for the last write at the end
  bool resume = false;
  Step saved_step = 0;                   // of the run's newest checkpoint; 0: none is known
  std::vector<protocol::Fence> lineage;  // of the resumed run
  std::chrono::milliseconds round{0};    // the least time between two meetings of pair averaging; 0: every step is one
  bool monitors = true;                  // gradient norms, for the noise scale
  bool keep_gradients = true;            // so that a lost worker costs no forward or backward pass
};

Result<Environment> read_environment();

// This process has found its agent: its children do not, whether they are forked or execute a program. Call it before
// other threads read the environment.
void mark_as_connected();
// It, or a process that it was forked from, has.
bool was_connected();

}  // namespace elastictrain::session
