// Purpose: the manifest of a checkpoint and the record of a fence, as JSON that people and other tools can read. Pure.
//
// A manifest describes its data file (size, checksum) and all that the run needs besides the shared buffers. It has a
// seal over its own content, so that a changed number is detected. Neither seal nor checksum is secret: they detect
// damage and mistakes, not forgery.
//
// The checksum is XXH3 with 128 bits over the whole data file, as `xxh128sum FILE` prints it. It runs at memory speed,
// where SHA-256 would take a core from training for a noticeable part of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "supervisor/protocol/result.h"
#include "train/checkpoint/lineage.h"
#include "train/state/progress.h"

namespace elastictrain::checkpoint {

inline constexpr std::uint64_t kFormat = 1;
inline constexpr std::size_t kMaxManifestBytes = 32U << 20;  // small values may have 12 MiB, in two digits a byte

struct Manifest {
  Identity identity;  // generation with the progress' base; the step is progress.committed_step
  std::string run;
  std::string library_version;  // the version that wrote it
  std::uint32_t world_size = 0;
  std::uint64_t sample_count = 0;  // of the data set; 0: the program brings its own data order
  state::Progress progress;
  std::uint64_t layout_hash = 0;
  std::uint64_t data_bytes = 0;
  std::string data_checksum;  // 32 hexadecimal digits
  Lineage lineage;            // the fences that the writer knew
  std::vector<state::EarlyValue> early;
  std::vector<state::EarlyValue> attachments;  // of the program, to this step
};

struct FenceRecord {
  Fence fence;      // of the generation that wrote it
  Lineage lineage;  // the fences it knew, so that older records can be removed
  std::string run;
};

std::string to_json(const Manifest& manifest);
std::string to_json(const FenceRecord& record);

// kInvalid: damaged, changed, or not a file of elastictrain; kRefused: of a format that this version does not know.
Result<Manifest> parse_manifest(std::span<const std::byte> text);
Result<FenceRecord> parse_fence(std::span<const std::byte> text);

}  // namespace elastictrain::checkpoint
