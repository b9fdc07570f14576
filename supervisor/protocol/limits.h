// Purpose: upper bounds for all data that arrives from another process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace elastictrain::limits {

// Raised whenever a message changes its meaning; peers with another number are refused with an error that names both.
inline constexpr std::uint32_t kProtocolVersion = 3;

inline constexpr std::size_t kMaxFrameBytes = 32u << 20;        // a Prepare for 100,000 members fits
inline constexpr std::size_t kMaxWorkerFrameBytes = 32u << 20;  // the same message, relayed to a worker
inline constexpr std::size_t kMaxBootstrapBytes = 1u << 20;
inline constexpr std::size_t kMaxListLength = 200'000;
inline constexpr std::size_t kMaxStringBytes = 1u << 20;
inline constexpr std::size_t kMaxStateItemsBytes = 16u << 10;  // what a worker tells about its state when it is ready
inline constexpr std::size_t kMaxWorkers = 100'000;

}  // namespace elastictrain::limits
