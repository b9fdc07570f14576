// Purpose: calls of a data plane on memory of a device, beside those on host memory. A back end that supports them
// implements these interfaces next to Communicator, which hands them out: device_sums(), device_transfers().
//
// Ownership: the communicator's; an interface is valid as long as it is. Thread, failure: as Communicator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

namespace elastictrain::comm {

// How a gradient in 16 bits is divided among the ranks, where each sums one part of it. In elements.
struct Shards {
  std::size_t count = 0;
  std::uint32_t ranks = 1;

  // Of every shard but the last ones, which may be shorter or empty: a multiple of 16 bytes.
  std::size_t size() const { return (count + kStep * ranks - 1) / (kStep * ranks) * kStep; }
  std::size_t begin(std::uint32_t rank) const { return std::min(count, rank * size()); }
  std::size_t length(std::uint32_t rank) const { return begin(rank + 1) - begin(rank); }
  // Of the memory into which a rank receives its shard of all ranks.
  std::size_t bytes_of_parts() const { return ranks * size() * sizeof(std::uint16_t); }

  static constexpr std::size_t kStep = 8;
};

// A bucket in device memory of the worker.
struct DeviceReduce {
  float* data = nullptr;
  std::size_t count = 0;
  // A gradient in 16 bits, or null. `data` is then memory for its values in single precision, in which it is summed;
  // the sum is rounded once.
  void* narrow = nullptr;
  Element element = Element::kFloat32;  // of `narrow`
  float scale = 1.0F;                   // as in ReduceOptions
  // The input of the sum. kKeep: the gradient, copied to `keep` first if that is set. kKept: the content that `keep`
  // has from an earlier call. kNothing: zeros, whatever the gradient holds.
  enum class Input : std::uint8_t { kKeep, kKept, kNothing } input = Input::kKeep;
  void* keep =
      nullptr;  // as long as the gradient, of its type; filled when the sum has ended, also after a peer's error
  // The caller's CUstream (null: its default stream). Work that it holds runs before the sum.
  void* stream = nullptr;
  // The caller's CUevent, or null: the sum waits for this point of `stream` and not for what `stream` holds behind it.
  void* ready = nullptr;
  bool want_norms = false;
  // The caller's CUevent, or null. Recorded after the sum, if the device makes the sum.
  void* finished = nullptr;
  // Of a gradient in 16 bits that is exchanged as it is (see exchanges_narrow()), in place of `scale` and `data`: the
  // scale of every rank, by rank, 0 for one without input, and memory of Shards::bytes_of_parts().
  std::span<const float> weights = {};
  void* parts = nullptr;
};

// A piece of device memory that is sent to one peer, or received from it.
struct DeviceTransfer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t peer = 0;
  bool receives = false;
};

class DeviceSums {
 public:
  // Whether start_sum() queues the sum behind its input and returns. Otherwise it waits on the host.
  virtual bool queues_sums() const = 0;
  // Whether a gradient in 16 bits may be passed with `weights`, by all ranks: then each rank receives its shard of all
  // ranks in 16 bits, sums it in single precision in the order of the ranks, rounds it once and sends it to the others.
  virtual bool exchanges_narrow() const { return false; }
  // An in-place sum in device memory, like all_reduce() and in one order with it on all ranks. Its memory belongs to it
  // until finish_sums() has returned. If it fails, all sums that were started have ended.
  virtual Status start_sum(const DeviceReduce& reduce) = 0;
  // Waits until all sums that were started are complete, and adds up their norms. The host waits, because an update
  // that is queued behind a collective would use a partial sum if the collective is aborted.
  virtual Status finish_sums(ReduceStats* stats = nullptr) = 0;

  Status all_reduce_device(const DeviceReduce& reduce, ReduceStats* stats = nullptr) {
    const Status started = start_sum(reduce);
    return started ? finish_sums(stats) : started;
  }

 protected:
  ~DeviceSums() = default;
};

// State moves between devices without a copy in host memory.
class DeviceTransfers {
 public:
  // Called by all ranks before their first sum, or by none. Starts all pieces together, after the caller's CUevent
  // `ready` (null: at once), once their peers have called it too. Later sums wait for the pieces. Every piece is named
  // at both its ends, and both ends name the pieces of a pair in the same order. Before finish_device_transfers() has
  // returned, a sender must not write the memory and a receiver must not access it.
  virtual Status start_device_transfers(std::span<const DeviceTransfer> transfers, void* ready) = 0;
  virtual Status finish_device_transfers() = 0;

 protected:
  ~DeviceTransfers() = default;
};

}  // namespace elastictrain::comm
