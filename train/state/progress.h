// Purpose: the numbers that are replicated in addition to the program's buffers: the progress of the run, the position
// of the sampler and the course of the learning rate. They are sent as one record before every state transfer. Its
// length depends on the number of members and of returned samples, and comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/state/sampler.h"
#include "train/state/state_buffers.h"

namespace elastictrain::state {

// Linear from one factor to another over a number of committed steps.
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
  // Added to the generation in checkpoints: a run that starts from the checkpoint of another one counts its generations
  // from one again, and those of the other run must stay older.
  Generation generation_base = 0;
  SamplerState sampler;
  LearningRateRamp learning_rate;
};

struct WorkerShare {
  WorkerId worker;
  std::uint32_t samples = 0;
  bool is_lost = false;  // a recovery continued without its gradient: its share counts in no later generation
  bool operator==(const WorkerShare&) const = default;
};

// A small value of the program that a joiner has before its first step.
struct EarlyValue {
  std::string name;
  std::vector<std::byte> bytes;
  bool operator==(const EarlyValue&) const = default;
};

// What a donor sends before its slice. `generation` is the one that the joiner becomes a member of.
struct TransferHeader {
  Generation generation = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t slice_offset = 0;
  std::uint64_t slice_length = 0;
  std::uint64_t sample_count = 0;
  Progress progress;
  // How the step after the committed one is divided, in the order of the ranks that opened it first. A recovery does
  // not divide it again: shares of workers that do not take part return to the pool.
  std::vector<WorkerShare> next_shares;
  // The last committed step in which every worker made its own update (an averaging synchronization); 0: none. If it is
  // the last committed step, replicas differ: the first donor then sends all of the state and the others nothing.
  Step averaged_until = 0;
  Step data_ended_at = 0;  // the step with which the program ended its data for all; 0: it has not
  std::vector<EarlyValue> early;
  // In a first broadcast: what the program had attached to the checkpoint with which the run begins.
  std::vector<EarlyValue> attachments;

  bool replicas_differ() const { return averaged_until != 0 && averaged_until == progress.committed_step; }
};

// The slice of the state that donor `index` of `count` sends.
Slice slice_of_donor(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count, bool replicas_differ);
// The slice of another donor that it compares with its own state: the next one's. Empty where donors need not be equal.
Slice slice_to_compare(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count, bool replicas_differ);

inline constexpr std::size_t kHeaderPrefixBytes = 16;      // magic and length of the whole
inline constexpr std::size_t kMaxHeaderBytes = 20U << 20;  // early values of 4 MiB, attachments of 8 MiB

std::vector<std::byte> encode_header(const TransferHeader& header);
// Reads the length of the whole header from the first kHeaderPrefixBytes.
Result<std::size_t> header_length(std::span<const std::byte> prefix);
// Decodes the whole header. Checks the length, the checksum, and that the returned samples satisfy SamplerState.
Result<TransferHeader> decode_header(std::span<const std::byte> bytes);

}  // namespace elastictrain::state
