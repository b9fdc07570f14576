// Purpose: use of the worker's GPU besides communication: access to state in its memory, memory for kept gradients,
// waits for the program's streams, and times of marks in them by the host's clock.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/device/device.h"
#include "train/device/device_memory.h"
#include "train/device/device_port.h"
#include "train/device/stream.h"

// The time at which a device reached a mark in one of its streams, in the host's clock. A step's times are
// then those of the work itself, not those at which a host thread noticed its end.
//
// Ownership: the session. Thread: the training thread. Failure: CUDA errors as Statuses; nullopt for a time that the
// device cannot report without waiting.

namespace elastictrain::session {

class DeviceTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static Result<std::unique_ptr<DeviceTimes>> open(const std::shared_ptr<device::Device>& device);

  // Uses a stream of its own: in the program's stream the mark would wait for work left from the previous step.
  Status step_begins(Time now);
  // The time of a mark with time that was recorded in this step, but no earlier than the step's begin. nullopt if it is
  // not known to be reached.
  std::optional<Time> of(const device::Event& mark) const;

 private:
  DeviceTimes(device::Stream stream, device::Event begin) : stream_(std::move(stream)), begin_(std::move(begin)) {}

  const device::Stream stream_;
  const device::Event begin_;
  Time began_{};
};

// A piece of device memory for the copies of a step's gradients, one after the other in the order of the buckets.
// Ownership: that of the memory is the caller's. Thread: one at a time. Units: bytes; each copy takes a multiple of 16.

class CopiesArea {
 public:
  CopiesArea() = default;
  CopiesArea(void* begin, std::size_t bytes) : begin_(static_cast<std::byte*>(begin)), bytes_(bytes) {}

  // The place for the copy of bucket `index`, the same in each step until a bucket before it has another size. Null: it
  // does not fit.
  void* of_bucket(std::size_t index, std::size_t bytes);

 private:
  struct Piece {
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };

  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

// A session's use of its worker's GPU besides the communicator: the port to state in device memory, memory for
// kept gradients, waits for the program's streams, and the times of a step's gradients and sums.
//
// Ownership: the session; the program keeps its memory and streams. Thread: the training thread; await_input() also on
// the thread that reduces, keep(), wide() and parts() only there; the port on any. Failure: CUDA errors as Statuses.
// After some of them the process must end (device::is_sticky).

class DeviceSide {
 public:
  static Result<std::unique_ptr<DeviceSide>> open(int ordinal);

  const std::shared_ptr<device::Device>& device() const { return device_; }
  state::MemoryPort& port() { return *port_; }

  // The work that `stream` holds now is part of the state from this point on.
  Status state_written(void* stream);
  // The CUevent of the last state_written(); null before the first.
  void* state_mark() const { return is_state_marked_ ? state_mark_.handle() : nullptr; }

  // As Session::use_stream_order().
  void use_stream_order() { is_in_stream_order_ = true; }
  bool is_in_stream_order() const { return is_in_stream_order_; }

  Status step_begins(DeviceTimes::Time now);
  // The work that `stream` holds now produces the gradient of the step's bucket `index`. Call it on the training
  // thread.
  Status mark_input(std::size_t index, void* stream);
  // Waits until that work is done. It has no deadline, because this is the program's computation.
  Status await_input(std::size_t index);
  // The same, until the work is done that the stream of the last call held then: the host stays one step ahead at most.
  Status follow(void* stream);
  // The CUevent that mark_input() has recorded.
  void* input_mark(std::size_t index) { return mark(index).input.handle(); }
  // The CUevent to record after the sum of the step's bucket `index`.
  void* end_mark(std::size_t index) { return mark(index).sum.handle(); }
  // When the gradient of that bucket, and its sum, were complete; see DeviceTimes::of().
  std::optional<DeviceTimes::Time> input_time(std::size_t index) { return times_->of(mark(index).input); }
  std::optional<DeviceTimes::Time> sum_time(std::size_t index);
  Status fill_zero(void* data, std::size_t bytes, void* stream);
  // Of device memory, behind the work that `stream` holds.
  Status copy(void* into, const void* from, std::size_t bytes, void* stream);
  // The memory for copies of a step's gradients, `bytes` in all: the program's, or, if `memory` is null, this object's
  // as soon as make_room() is called. Before start().
  void plan_copies(std::size_t bytes, void* memory);
  // Nothing if the program has given it, or nothing was planned, or it was called before. Thread: before start() the
  // training thread, afterwards that which builds communicators.
  Status make_room();
  // Memory for a copy of the step's bucket `index`, reused from step to step: what was planned, and more if that is
  // full.
  Result<void*> keep(std::size_t index, std::size_t bytes);
  // The same for its values in single precision, if its own are narrower.
  Result<void*> wide(std::size_t index, std::size_t bytes) { return memory(wides_, sums_bytes_, index, bytes); }
  // For what other ranks send of a bucket: one memory for all, whose sums follow one another.
  Result<void*> parts(std::size_t bytes);
  // The device's memory now, by its driver, and what this object holds of it. Thread: any.
  protocol::DeviceMemoryUse memory_use() const;

 private:
  // The marks of one bucket, reused in each step.
  struct Marks {
    device::Event input;
    device::Event sum;
  };

  DeviceSide(std::shared_ptr<device::Device> device, std::unique_ptr<device::DevicePort> port,
             std::unique_ptr<DeviceTimes> times, device::Event state_mark)
      : device_(std::move(device)),
        port_(std::move(port)),
        times_(std::move(times)),
        state_mark_(std::move(state_mark)) {}
  const Marks& mark(std::size_t index);
  Status await(const device::Event& mark) const;
  Status refuse_capture(void* stream) const;
  Result<void*> memory(std::vector<device::DeviceMemory>& pieces, std::atomic<std::size_t>& held, std::size_t index,
                       std::size_t bytes);

  const std::shared_ptr<device::Device> device_;
  const std::unique_ptr<device::DevicePort> port_;
  const std::unique_ptr<DeviceTimes> times_;
  device::Event state_mark_;
  bool is_state_marked_ = false;
  bool is_in_stream_order_ = false;
  device::Event followed_;   // of follow()
  std::mutex mutex_;         // guards the marks and the area of copies
  std::deque<Marks> marks_;  // index = bucket
  std::size_t planned_bytes_ = 0;
  device::DeviceMemory planned_;
  CopiesArea copies_;
  std::vector<device::DeviceMemory> keeps_;
  std::vector<device::DeviceMemory> wides_;
  std::vector<device::DeviceMemory> parts_;  // the last one is the largest; sums of this step may use the others
  std::atomic<std::size_t> copies_bytes_ = 0;
  std::atomic<std::size_t> sums_bytes_ = 0;
};

}  // namespace elastictrain::session
