// Purpose: the numbers that are replicated beside the program's buffers: how far the run is, where the sampler stands
// and how the learning rate moves. They travel as one record in front of every state transfer; its length varies with
// the number of members and of returned samples, and stands in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/state/sampler.h"
#include "train/state/state_buffers.h"

namespace elastictrain::state {

// Linear from one factor to another over so many committed steps.
struct LearningRateRamp {
  double from = 1;
  double to = 1;
  std::uint32_t length_steps = 0;
  std::uint32_t done_steps = 0;

  double factor() const;
  void advance();
  void retarget(double factor, std::uint32_t length_steps);
};

struct Progress {
  Step committed_step = 0;
  std::uint64_t samples_used = 0;  // over all epochs and workers
  // In checkpoints this is added to the generation: a run that starts from the checkpoint of another one counts its
  // generations from one again, and theirs must stay older.
  Generation generation_base = 0;
  SamplerState sampler;
  LearningRateRamp learning_rate;
};

struct WorkerShare {
  WorkerId worker;
  std::uint32_t samples = 0;
  bool is_lost = false;  // a recovery has gone on without its gradient: its part counts in no generation any more
  bool operator==(const WorkerShare&) const = default;
};

// What a donor says before its slice. `generation` is the one that the joiner becomes a member of.
struct TransferHeader {
  Generation generation = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t slice_offset = 0;
  std::uint64_t slice_length = 0;
  std::uint64_t sample_count = 0;
  Progress progress;
  // How the step after the committed one is cut, in the order of the ranks that it was first opened for. A recovery
  // does not cut it again: parts of workers that do not take part in it return to the pool.
  std::vector<WorkerShare> next_shares;
  // The last committed step in which every worker made its own update (an averaging synchronization); 0: none. While it
  // is the last one of all, replicas differ: then the first donor sends everything and the others nothing.
  Step averaged_until = 0;

  bool replicas_differ() const { return averaged_until != 0 && averaged_until == progress.committed_step; }
};

// What donor `index` of `count` sends.
Slice slice_of_donor(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count, bool replicas_differ);

inline constexpr std::size_t kHeaderPrefixBytes = 16;  // magic and length of the whole
inline constexpr std::size_t kMaxHeaderBytes = 8U << 20;

std::vector<std::byte> encode_header(const TransferHeader& header);
// From the first kHeaderPrefixBytes: how long the whole header is.
Result<std::size_t> header_length(std::span<const std::byte> prefix);
// All of it: checks the length, the check sum and that the returned samples are what SamplerState says.
Result<TransferHeader> decode_header(std::span<const std::byte> bytes);

}  // namespace elastictrain::state
