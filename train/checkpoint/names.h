// Purpose: the names of the files of a checkpoint directory. Pure.
//
//   step-40.gen-2.safetensors           the state
//   step-40.gen-2.json                  its manifest; only both together are a checkpoint
//   fence.gen-3.json                    generation 3 continued from an earlier step than some had reached
//   NAME.tmp.gen-2.HOST.PID             a file that a process of generation 2 on HOST is writing
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/checkpoint/lineage.h"

namespace elastictrain::checkpoint {

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
