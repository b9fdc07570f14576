// Purpose: identity of checkpoints: those of a directory that count, the newest and the removable ones, and the
// names of their files. Pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"

// Selects the checkpoints of a directory that count, the newest of them, and those that can be removed. Pure.
//
// A generation that continues from step T after a loss has the first step T+1: everything that earlier generations
// wrote about later steps is discarded. That is a fence; all fences together are the lineage. Checkpoints that a
// disconnected worker writes are void because of the fence.

namespace elastictrain::checkpoint {

using protocol::Fence;
using Lineage = std::vector<Fence>;

// A greater identity is newer. The generation counts more than the step, as a later one may have returned to an earlier
// step.
struct Identity {
  Generation generation = 0;
  Step step = 0;
  auto operator<=>(const Identity&) const = default;
};

// Ascending generations and first steps, without fences that a later one implies; at most the newest 256.
Lineage merge(std::span<const Fence> a, std::span<const Fence> b);

bool is_fenced_out(const Identity& identity, std::span<const Fence> lineage);

// The checkpoints that count, newest first: the order in which they are tried.
std::vector<Identity> newest_first(std::span<const Identity> found, std::span<const Fence> lineage);

// The checkpoints that may be removed so that `keep` remain: older ones that count, and those fenced out by a run that
// continues beyond them. Checkpoints of generations up to `foreign` that do not count belong to another run and stay.
std::vector<Identity> removable(std::span<const Identity> found, std::span<const Fence> lineage, std::size_t keep,
                                Generation foreign);

// The format of ELASTICTRAIN_LINEAGE: "generation:first_step,…".
Result<Lineage> parse_lineage(std::string_view text);

// The names of the files of a checkpoint directory. Pure.
//
//   step-40.gen-2.safetensors           the state
//   step-40.gen-2.json                  its manifest; only both together are a checkpoint
//   fence.gen-3.json                    generation 3 continued from an earlier step than some had reached
//   NAME.tmp.gen-2.HOST.PID             a file that a process of generation 2 on HOST is writing

std::string data_name(const Identity& identity);
std::string manifest_name(const Identity& identity);
std::string fence_name(Generation generation);

// The process that writes a temporary file.
struct Writer {
  Generation generation = 0;
  std::string host;
  std::int64_t pid = 0;
};
// A host's name without characters that have a meaning in file names, including dots.
std::string harmless(std::string_view host);
std::string temporary_name(std::string_view name, const Writer& writer);

enum class FileKind : std::uint8_t { kData, kManifest, kFence, kTemporary };
struct FileName {
  FileKind kind = FileKind::kData;
  Identity identity;   // of a data file or manifest; a fence has only the generation
  Writer writer;       // of a temporary file
  std::string wanted;  // the final name of a temporary file
};
// nullopt if the name does not have this format.
std::optional<FileName> parse_name(std::string_view name);

}  // namespace elastictrain::checkpoint
