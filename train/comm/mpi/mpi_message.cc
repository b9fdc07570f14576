#include "train/comm/mpi/mpi_message.h"

namespace elastictrain::comm {
namespace {

// Up to this size the number of messages costs more than their bytes.
constexpr std::size_t kDoublingBytes = 16 << 10;
// Over sockets both MPIs send up to 64 KiB, with headers of theirs, without asking the receiver first.
constexpr std::size_t kEagerBytes = (64 << 10) - 256;

}  // namespace

MpiSumPlan plan_mpi_sum(std::size_t bytes, std::uint32_t ranks) {
  if (bytes <= kDoublingBytes) return {MpiSumWay::kDoubling, bytes};
  // A block of one or two messages that nobody asks for, or large ones.
  return {MpiSumWay::kRing, bytes / ranks <= 2 * kEagerBytes ? kEagerBytes : MpiMessage::kPayloadBytes};
}

// More of them keep ranks busy that share cores, each of which waits for its turn; those of two ranks should fit in a
// cache.
std::size_t mpi_ring_window(std::uint32_t ranks) {
  return ranks > 2 ? 8 : 4;
}

}  // namespace elastictrain::comm
