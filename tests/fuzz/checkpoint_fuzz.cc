// Files of a checkpoint directory, with any content: manifests and fences (also with a valid seal), headers of
// safetensors, file names, lineages. The first byte selects the kind.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/check.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/lineage.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/tensor_header.h"

namespace {

using namespace elastictrain;
using namespace elastictrain::checkpoint;
using nlohmann::json;

// Seals an object, as an attacker who knows the format would.
std::string with_seal(std::string_view text) {
  constexpr int kMaxDepth = 32;
  json object = json::parse(
      text, [](int depth, json::parse_event_t, json&) { return depth < kMaxDepth; }, false);
  if (!object.is_object()) return std::string(text);
  object.erase("seal");
  const std::string content = object.dump();
  object["seal"] = checksum_of(std::as_bytes(std::span(content)));
  return object.dump();
}

void manifest(const std::string& text) {
  const auto first = parse_manifest(std::as_bytes(std::span(text)));
  if (!first) return fuzz::check(!first.error().message.empty(), "a manifest is refused without a word");
  const std::string again = to_json(*first);
  const auto second = parse_manifest(std::as_bytes(std::span(again)));
  fuzz::check(second.ok() && to_json(*second) == again, "a manifest changes when it is written again");
  fuzz::check(state::is_well_formed(second->progress.sampler), "a sampler of no sense was accepted");
}

void fence(const std::string& text) {
  const auto first = parse_fence(std::as_bytes(std::span(text)));
  if (!first) return;
  const std::string again = to_json(*first);
  const auto second = parse_fence(std::as_bytes(std::span(again)));
  fuzz::check(second.ok() && to_json(*second) == again, "a fence changes when it is written again");
}

void tensors(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const auto length = tensor_header_length(bytes);
  if (!length || *length > bytes.size()) return;
  const auto header = parse_tensor_header(bytes);
  if (!header) return;
  std::uint64_t end = 0;
  for (const Tensor& tensor : header->tensors) {
    fuzz::check(tensor.begin == end, "tensors with a gap or over each other were accepted");
    end += tensor.bytes;
  }
  fuzz::check(end == header->data_bytes, "a length of the data that is not that of its tensors");
}

void names(std::string_view text) {
  const auto name = parse_name(text);
  if (name && name->kind == FileKind::kData) fuzz::check(data_name(name->identity) == text, "two names for one file");
  if (name && name->kind == FileKind::kManifest) {
    fuzz::check(manifest_name(name->identity) == text, "two names for one manifest");
  }
  const auto lineage = parse_lineage(text);
  if (!lineage) return;
  const Lineage merged = merge(*lineage, *lineage);
  for (std::size_t i = 1; i < merged.size(); ++i) {
    const bool rises =
        merged[i - 1].generation < merged[i].generation && merged[i - 1].first_step < merged[i].first_step;
    fuzz::check(rises, "a merged lineage that does not rise");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      manifest(text);
      break;
    case 1:
      manifest(with_seal(text));
      break;
    case 2:
      fence(text);
      break;
    case 3:
      fence(with_seal(text));
      break;
    case 4:
      tensors(text);
      break;
    default:
      names(text);
      break;
  }
  return 0;
}
