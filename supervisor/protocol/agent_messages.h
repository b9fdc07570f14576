// Purpose: the messages between an agent and its supervisor, and between a command that offers a host and its run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/worker_messages.h"

// The messages between an agent and its supervisor. Plain data; codec.h turns them into bytes.
//
// The agent relays: a worker's messages travel up inside FromWorker, the supervisor's messages to workers travel down
// inside ToWorkers (one copy per agent, whatever the number of addressees). Units are in the names; durations are
// 64-bit integers.

namespace elastictrain::protocol {

// Sent to the agent as one frame on its stdin, never in argv or the environment.
struct AgentBootstrap {
  std::uint32_t protocol_version = 0;
  std::string run_name;
  AgentId agent;
  std::string host;                    // the name under which the user knows it
  std::vector<std::string> addresses;  // where the supervisor listens, best first
  std::uint16_t port = 0;
  std::array<std::uint8_t, 32> key{};  // pre-shared key of this run
  std::uint64_t connect_timeout_ms = 0;
  std::uint64_t heartbeat_ms = 0;
  std::uint64_t worker_dead_ms = 0;
  std::uint64_t orphan_grace_ms = 0;
  std::uint64_t grace_ms = 0;  // between TERM and KILL
  std::string interface;       // data plane interface chosen by the user; empty: by route
  std::string notice_probe;    // shell command, run every `notice_probe_ms`; status 0: this host is going away
  std::uint64_t notice_probe_ms = 0;
  // The process of a worker that has left stays for this long, to be another worker; 0: it ends.
  std::uint64_t keep_warm_ms = 0;
  std::uint64_t keep_warm_percent = 0;  // of the host's memory that all these processes may hold together
  // Python modules that a process of the host imports once, to be forked for each worker; none: there is no such
  // process
  std::vector<std::string> preload;
  std::uint64_t preload_timeout_ms = 0;  // for the imports, and for a fork
  bool usr1_is_notice = false;           // as that of the probe
};

// What the supervisor writes to an agent's stdin.
using Bootstrap = std::variant<AgentBootstrap>;

// A process whose worker has left, and which waits in memory to be another one.
struct WarmProcess {
  WorkerId worker;  // that it was
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
  bool ending = false;  // it was told to end
  bool operator==(const WarmProcess&) const = default;
};

struct AgentHello {
  std::uint32_t protocol_version = 0;
  std::string binary_version;
  AgentId agent;
  std::string host_name;  // the machine's own name
  std::int64_t pid = 0;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::int64_t wall_clock_us = 0;
  // Its workers that have not exited. Workers whose exit it has seen follow as WorkerExited once more; the rest were
  // never started, because the order was lost with a connection.
  std::vector<WorkerId> workers;
  std::vector<WarmProcess> warm;
  std::uint32_t gpus = 0;  // in the kernel driver's list
};

// All of its warm processes, whenever they change. Sent before the end of the worker that such a process was.
struct WarmProcesses {
  std::vector<WarmProcess> processes;
};

struct WorkerSpawned {
  WorkerId worker;
  std::int64_t pid = 0;
};
struct WorkerSpawnFailed {
  WorkerId worker;
  std::string reason;
  std::int32_t exit_status =
      0;  // as a shell has it: 127: there is no such program, 126: it may not run; 0: another reason
};
// On the first of its hosts, the worker is to listen at `address` for its processes on the others. Repeated after a
// reconnect.
struct ReplicaListens {
  WorkerId worker;
  std::string address;  // "10.0.0.1:40123", "[fd00::1]:40123"
};
struct WorkerExited {
  WorkerId worker;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
  // The kernel's OOM killer ended it, or at that time another process of its memory group (cgroup).
  bool out_of_memory = false;
  std::uint64_t memory_limit_bytes = 0;  // the least that holds for the group; 0: none, so the host's was used up
  std::uint64_t peak_bytes = 0;          // of main memory, of its process; 0: not known
};

// Whole lines as one worker wrote them, in order. `dropped` lines before `lines` did not fit the bounded buffer.
// `unfinished`: a state of the line behind them that will be written over, as a progress bar is.
struct WorkerOutput {
  WorkerId worker;
  bool is_stderr = false;
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;
  std::string unfinished;
};

struct FromWorker {
  WorkerId worker;
  WorkerUp message;
};

struct WorkerSample {
  WorkerId worker;
  std::uint64_t quiet_ms = 0;  // since the agent received something from this worker, if it should send
  WorkerHeartbeat heartbeat;
  std::uint64_t cpu_ms = 0;  // CPU time of the process so far, from the kernel
  bool stopped = false;      // by a signal or a debugger
};
// One per heartbeat period: shows that the agent is alive and combines the heartbeats of its workers. Only workers
// whose numbers changed are listed.
struct AgentReport {
  std::uint64_t sequence = 0;
  std::vector<WorkerSample> workers;
};

struct GpuFacts {
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::uint32_t major = 0;  // of its compute capability
  std::uint32_t minor = 0;
  std::string bus_id;
};

// Second answer to CheckHost, when available: what programs on the host can load and use in a worker's environment. A
// problem field says why something is not available; otherwise it is empty.
struct AcceleratorFacts {
  std::string problem;  // why nothing could be determined
  std::string driver;   // "CUDA 13.0, /usr/lib/libcuda.so.1"
  std::string driver_problem;
  std::vector<GpuFacts> gpus;
  std::string peer_access;  // between GPUs, if there are several
  std::string nvrtc_problem;
  std::string cublas;  // its path
  std::string cublas_problem;
  std::uint32_t nccl_version = 0;  // 22809 for 2.28.9
  std::string nccl;                // its path
  std::string nccl_problem;
  std::string mpi;
  std::string mpi_problem;
  // Free in /dev/shm, where NCCL keeps what GPUs of one host exchange; 0 if unknown.
  std::uint64_t shared_memory_free_bytes = 0;
};

// First answer to CheckHost, at once: what `elastictrain check` prints about a host.
struct HostFacts {
  std::string binary_version;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> gpus;  // in the kernel driver's list
  std::int64_t wall_clock_us = 0;
  std::string kernel_driver;           // version of the GPUs' kernel driver
  std::string interface;               // the one that carries the data plane
  std::vector<std::string> addresses;  // of the data plane
  std::string interface_problem;
  std::string nccl_interface;       // value of NCCL_SOCKET_IFNAME for workers
  std::string program_problem;      // why the program cannot be started here
  std::int32_t program_status = 0;  // as in WorkerSpawnFailed
  std::string missing_file;         // what the program would not find, and why it ends then
  std::string interpreter;          // of a Python program: its path behind all links, with its environment's version
};

// This host is about to go away (its probe reports it, or the agent got TERM): its workers should leave.
struct HostNotice {
  std::string reason;
};

// What an agent can be asked about one of its workers. The answer is text for people.
enum class Question : std::uint8_t {
  kStacks,      // where the process is, as far as it can be determined
  kCollectives  // NCCL's report on the collectives of the job, if a worker of this host runs the service
};
inline constexpr std::array<std::string_view, 2> kQuestionNames{"stacks", "collectives"};

struct AgentAnswer {
  Question question = Question::kStacks;
  WorkerId worker;  // as in the question
  std::vector<std::string> lines;
};

using AgentUp =
    std::variant<AgentHello, WorkerSpawned, WorkerSpawnFailed, WorkerExited, WorkerOutput, FromWorker, AgentReport,
                 HostFacts, HostNotice, AgentAnswer, AcceleratorFacts, WarmProcesses, ReplicaListens>;

// Of a worker that lies on several hosts: which of them the agent's is.
struct ReplicaPlace {
  std::uint32_t hosts = 1;
  std::uint32_t host = 0;              // 0: the first, whose process is the worker; the others have parts of it
  std::string address;                 // for a part: where it connects (ReplicaListens)
  std::array<std::uint8_t, 32> key{};  // of this worker, by which its processes know one another
};
struct SpawnWorker {
  WorkerId worker;
  std::uint32_t slot = 0;  // place on the host: index of its GPU or CPU share
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", added to the agent's own
  std::string working_directory;
  bool warm = false;  // the warm process of this slot is the worker, unless it has ended: then a new one is
  ReplicaPlace replica;
};
struct SignalWorker {
  WorkerId worker;
  std::int32_t signal = 0;
};
// TERM now, KILL after the grace time.
struct StopWorker {
  WorkerId worker;
  std::uint64_t grace_ms = 0;
};
struct ToWorkers {
  std::vector<WorkerId> workers;
  WorkerDown message;
};
// Stops all workers (TERM, KILL after the grace) and ends the agent.
struct StopAgent {
  std::uint64_t grace_ms = 0;
};
// All messages before the agent's report `heard_report` have been processed; 0: none on this connection yet.
struct SupervisorHeartbeat {
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged_report = 0;
};
// `environment` is added to the agent's own as for a worker, which would run `argv` in `working_directory` and read
// `files`. Answered by HostFacts, and by AcceleratorFacts within `time_limit_ms`.
struct CheckHost {
  std::vector<std::string> environment;
  std::uint64_t time_limit_ms = 0;
  std::vector<std::string> argv;
  std::string working_directory;
  std::vector<std::string> files;
};
// `worker` seems to hang. Answered by AgentAnswer within `time_limit_ms` with what is available by then, or not at all.
struct AskAgent {
  Question question = Question::kStacks;
  WorkerId worker;
  std::uint64_t time_limit_ms = 0;
};
// This worker is about to leave: its process stays warm when it has. Sent before the Commit that lets it go.
struct KeepWarm {
  WorkerId worker;
};
// The warm process that was `worker` ends at once: its slot or its host is needed, or it is not to be used again.
struct EndWarm {
  WorkerId worker;
};

using AgentDown = std::variant<SpawnWorker, SignalWorker, StopWorker, ToWorkers, StopAgent, SupervisorHeartbeat,
                               CheckHost, AskAgent, KeepWarm, EndWarm>;

// The messages between a run and a command that offers it a host (launcher/rendezvous). Plain data; codec.h
// turns them into bytes.

// The first message on a connection.
struct HostOffer {
  std::uint32_t protocol_version = 0;
  std::string build_id;        // agents are of this build
  std::uint64_t instance = 0;  // of the command: the same after its connection broke
  std::string host;
  std::uint32_t slots = 0;
};
// As launcher::LaunchEnded.
struct AgentEnded {
  AgentId agent;
  bool launched = false;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::string message;
  bool agent_ended = false;
};
// The host is about to go away: its workers should leave.
struct HostLeaves {
  std::string reason;
};
using GuestUp = std::variant<HostOffer, AgentEnded, HostLeaves>;

struct ForgetAgent {
  AgentId agent;
};
struct HostRefused {
  std::string reason;
};
// The run will never use the host: the command ends, with status 0.
struct HostUnneeded {
  std::string reason;
};
struct RunEnded {
  std::int32_t status = 0;  // the run's exit status
};
// AgentBootstrap: start an agent with it.
using GuestDown = std::variant<AgentBootstrap, ForgetAgent, HostRefused, HostUnneeded, RunEnded>;

}  // namespace elastictrain::protocol
