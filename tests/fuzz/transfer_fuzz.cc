// The header of a donor's slice of the state: raw, and with valid length and check sum, so that the code behind them is
// reached.
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/check.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

namespace {

using namespace elastictrain;
using Bytes = std::vector<std::byte>;

void put(Bytes& bytes, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

Bytes repaired(Bytes bytes) {
  put(bytes, 8, bytes.size());
  put(bytes, bytes.size() - 8, state::hash_bytes(bytes.data(), bytes.size() - 8, 0));
  return bytes;
}

void read(const Bytes& bytes) {
  const auto length = state::header_length(std::span(bytes).first(state::kHeaderPrefixBytes));
  if (!length || *length > bytes.size()) return;
  fuzz::check(*length <= state::kMaxHeaderBytes, "a header beyond its bound");
  const auto header = state::decode_header(std::span(bytes).first(*length));
  if (!header) return;
  fuzz::check(state::is_well_formed(header->progress.sampler), "a sampler of no sense was accepted");
  const Bytes again = state::encode_header(*header);
  const auto second = state::decode_header(again);
  fuzz::check(second.ok() && state::encode_header(*second) == again, "a header changes when it is written again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < state::kHeaderPrefixBytes + 8) return 0;
  const auto view = std::as_bytes(std::span(data, size));
  const Bytes bytes(view.begin(), view.end());
  read(bytes);
  read(repaired(bytes));
  return 0;
}
