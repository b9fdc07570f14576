// Purpose: the algorithm and the message sizes with which ranks sum a vector over MPI's messages. Pure; the same at all
// ranks. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace elastictrain::comm {

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
