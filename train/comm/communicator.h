// Purpose: the data plane of one generation. Built in the background while the generation before it trains, used by
// one thread, thrown away after it. Its life cycle is the hard part: it can be built beside another one, be aborted
// from any thread, never hangs and never leaks.
//
// Ownership: whoever built it. Thread: all calls on one thread at a time, except abort(), which any thread may make.
// Failure: after any error the communicator is broken: every later call fails at once, the buffers of the failed call
// are undefined, and what remains is to destroy it. Destruction closes at once and never waits for a peer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::comm {

// What a back end can do; data, so that nobody compares names.
struct Capabilities {
  std::string name;  // "cpu", "nccl", "mpi"
  bool host_memory = true;
  bool device_memory = false;
  bool abort_is_prompt = true;   // abort() ends a blocked call within a millisecond or so
  bool background_build = true;  // may be built while another one of the same process is in use
};

enum class Algorithm : std::uint8_t { kAuto, kRing, kTree };
enum class Transport : std::uint8_t { kAuto, kTcpOnly };  // kAuto: shared memory within a host, TCP between hosts

struct BuildSpec {
  Generation generation = 0;
  Token token{};
  std::uint32_t rank = 0;
  std::vector<protocol::Endpoint> peers;  // index = rank, own entry included
  Transport transport = Transport::kAuto;
  Algorithm algorithm = Algorithm::kAuto;  // of the automatic topology
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> fathers;  // an explicit tree in place of the topology's: index = rank, the root its own
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds operation_timeout{0};  // 0: a call waits until it is done or aborted
  std::size_t processors = 0;                      // see op_control.h
};

struct ReduceOptions {
  float scale = 1.0F;  // every element of this rank's input is multiplied by it first (the weight of its samples)
  // Control lane: summed over all ranks in the same pass as the data, but never scaled; every rank reads the same sums.
  std::span<float> lane;
  bool want_norms = false;
  // As long as the data, or empty. When the call returns, also with an error, it holds this rank's input as it was
  // before the call, so that the same all-reduce can be repeated in another generation.
  std::span<float> keep;
};

struct ReduceStats {
  double local_square_sum = 0;    // of this rank's input, before scaling
  double reduced_square_sum = 0;  // of the result
};

struct Traffic {
  std::uint64_t bytes_sent = 0;  // over sockets
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_shared = 0;  // through shared memory
};

// A bucket in the memory of the worker's device.
struct DeviceReduce {
  float* data = nullptr;
  std::size_t count = 0;
  float scale = 1.0F;  // as in ReduceOptions
  // What goes into the sum. kKeep: what `data` holds, copied to `keep` first where there is one. kKept: what `keep`
  // holds from an earlier call. kNothing: zeros, whatever `data` holds.
  enum class Input : std::uint8_t { kKeep, kKept, kNothing } input = Input::kKeep;
  float* keep = nullptr;  // as long as `data`; filled when the call returns, also with an error of a peer's
  // The caller's CUstream (null: its default stream). What it holds already comes before the sum, what is put into it
  // afterwards comes after it.
  void* stream = nullptr;
  bool want_norms = false;
  // The caller's CUevent, or null: recorded behind the sum, where it is a device that makes it.
  void* finished = nullptr;
};

// A piece of device memory that goes to one peer, or comes from it.
struct DeviceTransfer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t peer = 0;
  bool receives = false;
};

// Of one peer that this rank has a connection to; shared memory has no figures of its own.
struct PeerFigures {
  std::uint32_t rank = 0;
  std::uint64_t bytes_sent = 0;  // since the communicator was built
  std::uint64_t bytes_received = 0;
  double round_trip_us = 0;  // the least that the kernel saw; 0: not known, or the peer is on this host
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t world_size() const = 0;
  virtual Generation generation() const = 0;
  virtual Capabilities capabilities() const = 0;

  // In-place sum. Every rank gets bit-identical results. All ranks pass the same sizes; a rank that does not is an
  // error on every rank that notices, never a crash.
  virtual Status all_reduce(std::span<float> data, const ReduceOptions& options = {}, ReduceStats* stats = nullptr) = 0;
  virtual Status broadcast(std::span<std::byte> data, std::uint32_t root) = 0;
  // `all` holds world_size() equal blocks; block r is rank r's `mine`.
  virtual Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Point to point: between ranks of one host, and between neighbours in the topology. kInvalid for other pairs.
  virtual bool reaches(std::uint32_t peer) const = 0;
  virtual Status send(std::span<const std::byte> data, std::uint32_t to) = 0;
  virtual Status receive(std::span<std::byte> data, std::uint32_t from) = 0;
  // Both ways between two ranks that both call it; sizes may differ. One after the other, where a back end knows no
  // better.
  virtual Status exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer);
  virtual Status barrier() = 0;

  // In-place sum in device memory, like all_reduce() and in one order with it on all ranks. Returns when the sum is
  // there: an update that was queued behind a collective which is then aborted would take half of a sum for the whole.
  virtual Status all_reduce_device(const DeviceReduce& reduce, ReduceStats* stats = nullptr);
  // Called by all ranks before their first sum, or by none. Starts all pieces together, after what the caller's
  // `stream` holds already, and returns; what is reduced afterwards waits for them. Every piece is named at both its
  // ends, those of one pair in the same order. The memory must not be written by a sender, nor be touched by a
  // receiver, before finish_device_transfers() has returned.
  virtual Status start_device_transfers(std::span<const DeviceTransfer> transfers, void* stream);
  virtual Status finish_device_transfers();

  // Looks, without waiting, whether a peer is known to be gone; for those who wait for something else than a call.
  virtual Status check_peers();

  // From the next call on each has this time; 0: until it is done or aborted.
  virtual void limit_operations(std::chrono::milliseconds timeout);

  // Ends the call in progress, here and (through closed connections) at the peers, with kAborted or kPeerLost.
  // Any thread, any number of times.
  virtual void abort() noexcept = 0;

  virtual Traffic traffic() const = 0;
  // One system call a peer. All pairs are connected in a clique only.
  virtual std::vector<PeerFigures> peers() const = 0;
};

// Lets another thread stop a build. `cancel()` wakes a builder that is blocked in poll(2) within a millisecond.
class CancelToken;

// A worker's one listening socket (TCP, and an abstract Unix socket for its host), kept over all its generations.
// Thread: used by one builder at a time; endpoint() from any thread.
class DataListener;

struct ListenOptions {
  std::string host_key;                // equal for workers that may share memory
  std::vector<std::string> addresses;  // numeric addresses to bind and to advertise; empty: 127.0.0.1
};

}  // namespace elastictrain::comm
