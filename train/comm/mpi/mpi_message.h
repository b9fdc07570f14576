// Purpose: messages of MPI as ranks exchange them: their layout, and the algorithm and sizes by which a vector is
// summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "train/comm/communicator.h"

// One message between two ranks: a header that identifies its operation, so that mismatching ranks detect it,
// and a piece of data. Messages are memory of ours: MPI may still read or write one after its collective was abandoned,
// and the user's memory must not change then.

namespace elastictrain::comm {

enum class MpiOperation : std::uint16_t { kReduceRing, kReduceDoubling, kShare, kSpread, kSend };

// The identity of one collective call: equal at all ranks.
struct MpiCall {
  MpiOperation operation = MpiOperation::kSend;
  Element element = Element::kFloat32;  // of a sum
  std::uint32_t number = 0;             // index of the collective within its generation
  std::uint64_t size = 0;               // of the whole operation
  bool operator==(const MpiCall&) const = default;
};

struct alignas(64) MpiMessage {
  // Over sockets both ends agree about each large message before its bytes move, so there are few of them.
  static constexpr std::size_t kPayloadBytes = 512 << 10;

  struct Header {
    MpiCall call;
    std::uint32_t step = 0;     // of the ring
    std::uint32_t segment = 0;  // of the block
    std::uint64_t bytes = 0;    // of payload
  };

  Header header;
  alignas(64) std::byte payload[kPayloadBytes];

  static constexpr std::size_t kHeaderBytes = 64;
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(this), kHeaderBytes + header.bytes};
  }
  std::span<std::byte> room() { return {reinterpret_cast<std::byte*>(this), kHeaderBytes + kPayloadBytes}; }
  std::span<std::byte> data() { return {payload, header.bytes}; }
  float* values() { return reinterpret_cast<float*>(payload); }
};
static_assert(sizeof(MpiMessage::Header) <= MpiMessage::kHeaderBytes);
static_assert(offsetof(MpiMessage, payload) == MpiMessage::kHeaderBytes);

// The algorithm and the message sizes with which ranks sum a vector over MPI's messages. Pure; the same at all
// ranks. Units: bytes.

enum class MpiSumWay { kDoubling, kRing };

struct MpiSumPlan {
  MpiSumWay way = MpiSumWay::kRing;
  std::size_t segment = 0;  // bytes of payload that a message of the ring has at most
  bool operator==(const MpiSumPlan&) const = default;
};

MpiSumPlan plan_mpi_sum(std::size_t bytes, std::uint32_t ranks);

// Messages of a ring in flight in each direction.
std::size_t mpi_ring_window(std::uint32_t ranks);

}  // namespace elastictrain::comm
