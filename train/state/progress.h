// Purpose: the numbers that are replicated beside the program's buffers: how far the run is, where the sampler stands
// and how the learning rate moves. They travel as one fixed record in front of every state transfer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/state/sampler.h"

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
  SamplerState sampler;
  LearningRateRamp learning_rate;
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
};

inline constexpr std::size_t kHeaderBytes = 136;
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encode_header(const TransferHeader& header);
Result<TransferHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace elastictrain::state
