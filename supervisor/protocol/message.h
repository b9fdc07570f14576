// Purpose: every message between supervisor, agents and workers. Plain data; codec.h turns it into bytes.
//
//   supervisor  <-- TLS, one TCP connection per agent -->  agent  <-- one Unix socket per worker -->  worker
//
// The agent relays: a worker's messages travel up inside FromWorker, the supervisor's messages to workers travel down
// inside ToWorkers (one copy per agent, whatever the number of addressees). Every message about a membership carries
// its generation, and a stale one changes nothing. Units are in the names; durations are 64-bit integers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"

namespace elastictrain::protocol {

// ---------------------------------------------------------------------------------------------------------------
// The plan of one generation

// Address of a worker's data plane. `host_key`: equal for workers that share memory (one agent's or MPI pool's).
struct Endpoint {
  std::string host_key;
  std::vector<std::string> addresses;  // numeric IPv4 or IPv6, best first
  std::uint16_t port = 0;
  std::string unix_name;  // abstract Unix socket of the same listener, empty if none
  std::int64_t mpi_rank = -1;  // rank in the MPI launch that started the process, if MPI carries the data; otherwise -1
};

struct Member {
  WorkerId worker;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;  // place among the members on the same host
  std::string host;
  Endpoint endpoint;
  std::uint32_t share = 0;  // samples per step
  bool joiner = false;      // takes part in its first step with an empty batch and weight zero
};

// The shape along which the data plane sums, named as in KungFu (OSDI 2020). kAuto: the back end chooses.
enum class Topology : std::uint8_t {
  kAuto,
  kStar,
  kRing,
  kTree,
  kBinaryTree,
  kBinaryTreeStar,
  kMultiStar,
  kMultiBinaryTreeStar,
  kClique
};

// What workers exchange in each step: the gradient of all (all models stay equal), or their models, with all or with
// one other worker (each worker has its own model).
enum class Synchronization : std::uint8_t { kGradients, kAveraging, kPairAveraging };

enum class ChangeKind : std::uint8_t { kStart, kGrow, kShrink, kReplace, kMigrate, kDrain, kStop, kRecover, kReshare };

// From `first_step` on, reports and checkpoints of generations before `generation` do not count.
struct Fence {
  Generation generation = 0;
  Step first_step = 0;
  bool operator==(const Fence&) const = default;
};

// A generation without members stops the run: every member of `previous` leaves at the boundary.
struct GenerationPlan {
  Generation generation = 0;
  Generation previous = 0;  // 0: the first generation, no previous one to swap from
  ChangeKind kind = ChangeKind::kStart;
  std::string reason;            // why, in text that a user understands
  Token token{};                 // secret of this generation's data plane
  std::vector<Member> members;   // index = rank
  std::vector<WorkerId> donors;  // survivors that send a slice of the state each; empty: no joiners
  double learning_rate_factor = 1.0;
  std::uint32_t learning_rate_ramp_steps = 0;  // steps over which the factor moves to its new value
  std::uint64_t build_deadline_ms = 0;         // for building the communicator and for the state transfer

  // A recovery: not 0, and equal to the fence of the Abort that its members have answered. No member waits for a step
  // boundary; each takes its seat where it halted. Members that are not joiners hold `resume_step`, keep the gradients
  // of the step after it and repeat only its all-reduce; joiners receive the state of `resume_step` (a worker that was
  // a member before and is behind, or has only part of the state, is one of them). Without members: the run stops here;
  // `donors` are the workers that hold `resume_step`, and the first of them writes the checkpoint.
  Generation fence = 0;
  Step resume_step = 0;
  // Earlier generations of this run, and the first step that each of them took part in, oldest first: a checkpoint of
  // generation g is valid only for steps before the next generation's first one.
  std::vector<Fence> lineage;

  Topology topology = Topology::kAuto;
  std::vector<std::uint32_t> fathers;  // explicit tree: index = rank, the root is its own parent; empty: none
  Synchronization synchronization = Synchronization::kGradients;
  double averaging_weight = 0;  // weight of the average against a worker's own model: kAveraging
};

// ---------------------------------------------------------------------------------------------------------------
// Worker -> supervisor

struct WorkerHello {
  std::uint32_t protocol_version = 0;
  WorkerId worker;
  std::int64_t pid = 0;
  std::string library_version;
};

// The program has built its model, registered its state and can start. Sent once.
struct WorkerReady {
  Endpoint endpoint;
  std::uint64_t state_bytes = 0;
  std::uint64_t state_layout_hash = 0;  // names, order and sizes; must be equal on all workers
  std::uint64_t sample_count = 0;       // per epoch; 0: the program brings its own data order
};

struct WorkerPrepared {
  Generation generation = 0;
};

struct WorkerPrepareFailed {
  Generation generation = 0;
  std::string reason;
};

// This worker has swapped: `first_step` is the first step it takes part in under `generation`.
struct WorkerActive {
  Generation generation = 0;
  Step first_step = 0;
  std::uint64_t state_transfer_bytes = 0;  // received (joiner) or sent (donor); may still be in flight for a donor
};

// Last message of a leaver: it committed `last_step` and takes no part in `generation`.
struct WorkerLeft {
  Generation generation = 0;
  Step last_step = 0;
};

// Answer to Abort, or sent unasked when a collective failed (`fence` 0): the worker takes part in no collective of
// `generation` or an older one any more, and `committed_step` does not change before a recovery.
struct WorkerHalted {
  Generation fence = 0;       // of the Abort that this message answers
  Generation generation = 0;  // the worker's current one; 0: none yet
  Step committed_step = 0;
  bool has_state = false;  // it holds the complete state of `committed_step`
  bool in_loop = false;    // start() has returned: it can become a joiner again, but not go back to the start
  std::string reason;      // what failed, for people; empty in an answer
  // False for a worker that received the state of `committed_step` in a recovery and has not committed a step since:
  // its part of the next step returned to the pool with the seat that it took. It holds the state like any other, but
  // it joins again while other workers are left that also hold the gradients.
  bool has_gradients = true;
};

// The program reached its end (all epochs, or its own stop condition).
struct WorkerFinished {
  Step last_step = 0;
};

// Where the training thread is. A long kOutside (an evaluation) or kCheckpoint is not a hang; a worker in kReducing
// waits for others.
enum class StepPlace : std::uint8_t { kStarting, kOutside, kComputing, kReducing, kUpdating, kCheckpoint, kHalted };

// Liveness and progress, separately: `sequence` grows with every heartbeat (also during a long step), `step` only with
// committed steps. Timings are means over the steps since the last heartbeat; 0 steps leave them at 0.
struct WorkerHeartbeat {
  std::uint64_t sequence = 0;
  Generation generation = 0;
  Step step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t steps = 0;
  double step_us = 0;
  double data_wait_us = 0;
  double compute_us = 0;  // before the collective
  double communicate_us = 0;
  double update_us = 0;
  double samples_per_s = 0;  // of the whole job
  double loss = 0;           // of the whole job, last committed step
  double epoch_fraction = 0;
  double gradient_norm = 0;  // of the averaged gradient
  StepPlace place = StepPlace::kStarting;
  std::uint64_t place_ms = 0;      // time spent there so far
  std::uint64_t samples_used = 0;  // of the whole job, committed, over all epochs
  // Squared gradient norms, means over `norm_steps` of these steps: over all workers of their own gradients, and of the
  // averaged one. Known only to the first rank.
  std::uint32_t norm_steps = 0;
  double local_square = 0;
  double global_square = 0;
  // Over sockets of the data plane, means over these steps, and the round trip to the farthest of the workers on other
  // hosts that this one has a connection to, the minimum that the kernel measured; 0: not known.
  double sent_bytes = 0;
  double received_bytes = 0;
  double round_trip_us = 0;
};

// Audit mode. Positions are places in the epoch's permutation, so [first, first+count) names exactly the samples.
struct AuditStep {
  Generation generation = 0;
  Step step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;
  std::uint64_t count = 0;
  bool hashed = false;
  std::uint64_t state_hash = 0;
};
// A step that takes returned samples has several pieces: one AuditStep for each, the first of them with the hash. Each
// worker numbers its batches from 1, so that a batch that is repeated after a broken connection counts once.
//
// A lost member, or one that adopts a step it did not finish, cannot report which samples it used in the last committed
// steps. So every survivor of a recovery reports it for the members that did not survive with it: `of` names the worker
// whose steps these are, ascending, the latest ones up to the last committed step. A report about steps that are
// already known (from the worker itself, or from another survivor) is equal and is dropped.
struct WorkerAudit {
  std::vector<AuditStep> steps;
  std::uint64_t batch = 0;  // numbered by the sender, also when it reports for another
  WorkerId of;              // none: the sender itself
  // The content of a checkpoint, reported by the worker that read it, or the state that a joiner received, reported
  // when a member of its first generation is lost: the workers that used these positions may be gone with their last
  // records. These entries do not say which worker used them when, so none of them counts as repeated.
  bool from_checkpoint = false;
};

// A named number or text that the program writes to the journal (test accuracy, for example).
struct WorkerNote {
  std::string key;
  std::string value;
};

// Requests of the program to its run, sent by the first rank. Limits apply as for a user's request. A field that is 0
// or empty keeps its value; names are those of names.h.
struct WorkerRequest {
  std::uint32_t workers = 0;
  std::uint32_t per_worker = 0;     // samples
  double learning_rate_factor = 0;  // replaces the rule's
  std::string topology;
  std::string synchronization;
};

// The cost of the change to `generation` for a survivor, reported some steps after it: from its last commit before the
// change to its first one after it, and a typical step at the new size.
struct WorkerSwap {
  Generation generation = 0;
  double gap_us = 0;
  double step_us = 0;  // median; without the first step
};

// Last message of a rank of an MPI pool, whose process must not exit while others use MPI: this worker has ended, and
// its process waits to become another one (Reseated). The agent keeps it and reports WorkerExited with success.
struct WorkerParked {
  Step last_step = 0;
};

using WorkerUp =
    std::variant<WorkerHello, WorkerReady, WorkerPrepared, WorkerPrepareFailed, WorkerActive, WorkerLeft, WorkerFinished,
                 WorkerHeartbeat, WorkerAudit, WorkerNote, WorkerSwap, WorkerHalted, WorkerRequest, WorkerParked>;

// ---------------------------------------------------------------------------------------------------------------
// Supervisor -> worker

struct Prepare {
  GenerationPlan plan;
};
// Sent once every member of `generation` is prepared; from here on the change cannot be cancelled.
struct Commit {
  Generation generation = 0;
};
// Before commit only: drop the prepared communicator of `generation`.
struct Cancel {
  Generation generation = 0;
};
// To a worker in no generation (joiner, spare): exit now, with success.
struct Dismiss {
  std::string reason;
};

// Ends every collective and every prepared plan of the generations up to `fence`, committed or not, at once. Answered
// by one WorkerHalted with the same fence as soon as the worker's last step is settled.
struct Abort {
  Generation fence = 0;
  std::string reason;
};

// From the agent itself, once: its supervisor has been away for the orphan grace, so that no plan can arrive any more.
// A worker in a generation requests the end at the next step boundary, with a checkpoint; a halted one writes that of
// its committed step; one in no generation exits. After the grace the rest is ended with TERM, then KILL.
struct Orphaned {
  std::string reason;
};

// From the agent itself, instead of starting a process: the parked process is this worker from here on. It sends
// WorkerHello and WorkerReady again and waits for a seat, as a new one does.
struct Reseated {
  WorkerId worker;
};

using WorkerDown = std::variant<Prepare, Commit, Cancel, Dismiss, Abort, Orphaned, Reseated>;

// ---------------------------------------------------------------------------------------------------------------
// Agent <-> supervisor

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
};

struct WorkerSpawned {
  WorkerId worker;
  std::int64_t pid = 0;
};
struct WorkerSpawnFailed {
  WorkerId worker;
  std::string reason;
};
struct WorkerExited {
  WorkerId worker;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
};

// Whole lines as one worker wrote them, in order. `dropped` lines before `lines` did not fit the bounded buffer.
struct WorkerOutput {
  WorkerId worker;
  bool is_stderr = false;
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;
};

struct FromWorker {
  WorkerId worker;
  WorkerUp message;
};

// One per heartbeat period: shows that the agent is alive and combines the heartbeats of its workers. Only workers
// whose numbers changed are listed; `quiet_ms` is how long the agent has received nothing from a worker that should
// send.
struct WorkerPulse {
  WorkerId worker;
  std::uint64_t quiet_ms = 0;
  WorkerHeartbeat heartbeat;
  std::uint64_t cpu_ms = 0;  // CPU time of the process so far, from the kernel
  bool stopped = false;      // by a signal or a debugger
};
struct AgentReport {
  std::uint64_t sequence = 0;
  std::vector<WorkerPulse> workers;
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
  std::string nccl_interface;  // value of NCCL_SOCKET_IFNAME for workers
};

// This host is about to go away (its probe reports it, or the agent got TERM): its workers should leave.
struct HostNotice {
  std::string reason;
};

// Answer to CaptureStacks: where the process is, as far as it could be determined, as lines for people.
struct WorkerStacks {
  WorkerId worker;
  std::vector<std::string> lines;
};

// Answer to AskCollectives: NCCL's report on the collectives of the job, as lines for people.
struct CollectivesAnswer {
  std::vector<std::string> lines;
};

using AgentUp = std::variant<AgentHello, WorkerSpawned, WorkerSpawnFailed, WorkerExited, WorkerOutput, FromWorker,
                             AgentReport, HostFacts, HostNotice, WorkerStacks, CollectivesAnswer, AcceleratorFacts>;

struct SpawnWorker {
  WorkerId worker;
  std::uint32_t slot = 0;  // place on the host: index of its GPU or CPU share
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", added to the agent's own
  std::string working_directory;
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
  std::uint64_t heard_report = 0;
};
// `environment` is added to the agent's own as for a worker. Answered by HostFacts, and by AcceleratorFacts within
// `time_limit_ms`.
struct CheckHost {
  std::vector<std::string> environment;
  std::uint64_t time_limit_ms = 0;
};
// Answered by WorkerStacks within `time_limit_ms`, with what is available by then.
struct CaptureStacks {
  WorkerId worker;
  std::uint64_t time_limit_ms = 0;
};

// `doubtful` seems to hang. Answered by CollectivesAnswer within `time_limit_ms`, if a worker of this host runs the
// service.
struct AskCollectives {
  WorkerId doubtful;
  std::uint64_t time_limit_ms = 0;
};

using AgentDown = std::variant<SpawnWorker, SignalWorker, StopWorker, ToWorkers, StopAgent, SupervisorHeartbeat,
                               CheckHost, CaptureStacks, AskCollectives>;

}  // namespace elastictrain::protocol
