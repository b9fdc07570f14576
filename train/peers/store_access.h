// Purpose: the peer-to-peer store as programs use it, latencies to all workers, and models read in the background.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/peers/model_store.h"
#include "train/session/collective_gate.h"
#include "train/session/environment.h"
#include "train/session/generation.h"

// Reads other workers' models in the background, one at a time, so that the reader never waits for one.
// Ownership: who reads; the store behind `read` must outlive it. Thread: start() and take() on one thread at a time;
// `read` runs on a thread of this class. Failure: a model that cannot be read does not arrive.

namespace elastictrain::peers {

class ModelReader {
 public:
  // False: there is no model of this size at the store of `entry`.
  using Read = std::function<bool(std::span<const std::byte> entry, std::span<float> model)>;

  explicit ModelReader(Read read);
  // Waits for the read in progress; end that first.
  ~ModelReader();

  // Does nothing while another read is in progress, or its model has not been taken.
  void start(std::span<const std::byte> entry, std::size_t floats);
  // Once for each model that has arrived: exchanges it for the memory of the next one.
  bool take(std::vector<float>& model);

 private:
  enum class State { kIdle, kAsked, kArrived, kEnding };
  void run();

  Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::vector<std::byte> entry_;
  std::vector<float> model_;  // of run() while a read is in progress
  std::thread thread_;
};

// The peer-to-peer store as programs use it, and other features that reach one worker directly: latencies to
// all others. Does nothing until the program enables it.
//
// Ownership: the worker; its store has a listener and a thread. Thread: the training thread; join_generation() on the
// thread that reduces. Failure: a store that cannot be opened throws SessionError; a peer that is gone is a reply.

class StoreAccess {
 public:
  StoreAccess(const session::Environment& environment, const session::Assignment& assignment,
              const session::CollectiveGate& gate)
      : environment_(environment), assignment_(assignment), gate_(gate) {}

  ~StoreAccess() { close(); }
  StoreAccess(const StoreAccess&) = delete;
  StoreAccess& operator=(const StoreAccess&) = delete;

  void open();
  bool is_open() const { return store_ != nullptr; }
  void close();
  // Once in each generation, behind the first sum: exchanges the stores' addresses.
  Status join_generation();

  void save(std::string_view name, std::span<const std::byte> data, std::uint64_t version);
  StoreReply request(std::uint32_t rank, std::string_view name, std::uint64_t version, std::span<std::byte> into,
                     std::chrono::milliseconds time_limit) const;
  // This worker's newest model, for read_model() of the others; and one of theirs, in the background: it has arrived
  // when take_model() returns true. Nothing is read while an earlier one is on its way.
  void publish_model(std::span<const float> model);
  void read_model(std::uint32_t rank, std::size_t floats);
  bool take_model(std::vector<float>& model) { return reader_ && reader_->take(model); }
  // index = rank; -1: no answer in time, 0: this worker.
  std::vector<double> latencies_us(std::chrono::milliseconds time_limit) const;
  // This worker's row in a matrix of zeros. The sum over all workers is the matrix of all latencies; the memory is
  // valid until the next call.
  std::span<float> measure_latencies(std::chrono::milliseconds time_limit);

 private:
  Status try_open();
  Status gather_entries();
  void mask_token(std::span<std::byte> entry, std::uint32_t rank) const;
  std::span<const std::byte> entry_of(std::uint32_t rank) const;

  const session::Environment& environment_;
  const session::Assignment& assignment_;
  const session::CollectiveGate& gate_;
  std::unique_ptr<ModelStore> store_;
  std::uint64_t published_ = 0;           // models
  std::vector<std::byte> entries_;        // of all ranks' stores
  std::optional<Generation> entries_of_;  // the generation for which they hold
  std::vector<float> latencies_;          // of all pairs, for the duration of the step that shares them
  std::unique_ptr<ModelReader> reader_;   // last: its thread uses the store
};

// The tree of minimum total latency over all `size` workers.
std::vector<elastictrain::TreeEdge> tree_of_latencies(std::span<const float> latencies, std::size_t size);

}  // namespace elastictrain::peers
