// Purpose: upper bounds for all data that arrives from another process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace elastictrain::limits {

// Raised whenever a message changes its meaning; peers with another number are refused with an error that names both.
inline constexpr std::uint32_t kProtocolVersion = 5;

inline constexpr std::size_t kMaxFrameBytes = 32u << 20;        // a Prepare for 100,000 members fits
inline constexpr std::size_t kMaxWorkerFrameBytes = 32u << 20;  // the same message, relayed to a worker
inline constexpr std::size_t kMaxBootstrapBytes = 1u << 20;
inline constexpr std::size_t kMaxListLength = 200'000;
inline constexpr std::size_t kMaxStringBytes = 4u << 20;       // a value of the board fits
inline constexpr std::size_t kMaxStateItemsBytes = 16u << 10;  // what a worker tells about its state when it is ready
inline constexpr std::size_t kMaxWorkers = 100'000;
inline constexpr std::uint32_t kMaxBatch = 1u << 30;  // samples of a worker in a step

// The board of a run (worker_messages.h).
inline constexpr std::size_t kMaxBoardKeyBytes = 200;
inline constexpr std::size_t kMaxBoardValueBytes = 4u << 20;
inline constexpr std::size_t kMaxBoardBytes = 64u << 20;  // of all values and keys
inline constexpr std::uint32_t kMaxBoardWaitMs = 10'000;  // for which the supervisor holds one question

}  // namespace elastictrain::limits
