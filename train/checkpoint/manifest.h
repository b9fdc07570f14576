// Purpose: the manifest of a checkpoint and the record of a fence, as JSON that people and other tools read. Pure.
//
// A manifest says what its data file must be (size, checksum) and all that the run needs beside the shared buffers. It
// carries a seal over its own content, so that a changed number is noticed. Neither seal nor checksum is a secret: they
// find damage and mistakes, not a forger.
//
// The checksum is XXH3 with 128 bits over the whole data file, as `xxh128sum FILE` prints it: at the speed of memory,
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
inline constexpr std::size_t kMaxManifestBytes = 8U << 20;

struct Manifest {
  Identity identity;  // generation with the progress' base; the step is progress.committed_step
  std::string run;
  std::string library_version;  // that wrote it
  std::uint32_t world_size = 0;
  std::uint64_t sample_count = 0;  // of the data set; 0: the program brings its own data order
  state::Progress progress;
  std::uint64_t layout_hash = 0;
  std::uint64_t data_bytes = 0;
  std::string data_checksum;  // 32 hexadecimal digits
  Lineage lineage;            // what the writer knew of
};

struct FenceRecord {
  Fence fence;      // of the generation that wrote it
  Lineage lineage;  // what it knew of, so that older records may go
  std::string run;
};

std::string to_json(const Manifest& manifest);
std::string to_json(const FenceRecord& record);

// kInvalid: damaged, changed, not ours; kRefused: of a format that this version does not know.
Result<Manifest> parse_manifest(std::span<const std::byte> text);
Result<FenceRecord> parse_fence(std::span<const std::byte> text);

}  // namespace elastictrain::checkpoint
