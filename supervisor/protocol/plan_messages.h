// Purpose: the plan of one generation, as it travels from the supervisor to every member. Plain data; codec.h turns it
// into bytes. Units are in the names; durations are 64-bit integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"

namespace elastictrain::protocol {

// Address of a worker's data plane. `host_key`: equal for workers that share memory (one agent's or MPI pool's).
struct Endpoint {
  std::string host_key;
  std::vector<std::string> addresses;  // numeric IPv4 or IPv6, best first
  std::uint16_t port = 0;
  std::string unix_name;       // abstract Unix socket of the same listener, empty if none
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

enum class ChangeKind : std::uint8_t {
  kStart,
  kGrow,
  kShrink,
  kReplace,
  kMigrate,
  kDrain,
  kStop,
  kRecover,
  kUpdatePlan
};

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
  // boundary; each takes its assignment where it halted. Members that are not joiners hold `resume_step`, keep the
  // gradients of the step after it and repeat only its all-reduce; joiners receive the state of `resume_step` (a worker
  // that was a member before and is behind, or has only part of the state, is one of them). Without members: the run
  // stops here; `donors` are the workers that hold `resume_step`, and the first of them writes the checkpoint.
  Generation fence = 0;
  Step resume_step = 0;
  // Earlier generations of this run, and the first step that each of them took part in, oldest first: a checkpoint of
  // generation g is valid only for steps before the next generation's first one.
  std::vector<Fence> lineage;

  Topology topology = Topology::kAuto;
  std::vector<std::uint32_t> parents;  // explicit tree: index = rank, the root is its own parent; empty: none
  Synchronization synchronization = Synchronization::kGradients;
  double averaging_weight = 0;  // weight of the average against a worker's own model: kAveraging

  // Rank 0 of the generation before writes a checkpoint at the boundary: hosts that hold the state go away.
  bool saves = false;
};

}  // namespace elastictrain::protocol
