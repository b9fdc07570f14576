// Purpose: the interface of one generation's data plane, and a base for communicators that wrap another one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/encryption.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"

// The data plane of one generation. It is built in the background while the previous generation trains, used
// by one thread, and destroyed afterwards. Its life cycle has strict rules: it can be built next to another one, be
// aborted from any thread, never hangs and never leaks.
//
// Ownership: the builder's caller. Thread: all calls on one thread at a time, except abort(), which any thread may
// make. Failure: after any error the communicator is broken. Every later call fails at once, the buffers of the failed
// call are undefined, and the owner can only destroy it. Destruction closes at once and never waits for a peer.

namespace elastictrain::comm {

// Capabilities of a back end, as data, so that no caller compares names.
struct Capabilities {
  std::string name;  // "cpu", "nccl", "mpi"
  bool host_memory = true;
  bool abort_is_prompt = true;   // abort() ends a blocked call within about a millisecond
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
  protocol::Encryption encryption = protocol::Encryption::kNone;  // of TCP connections
  Algorithm algorithm = Algorithm::kAuto;                         // of the automatic topology
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;  // an explicit tree of parents: index = rank; the root is its own parent
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds operation_timeout{0};  // 0: a call waits until it is done or aborted
  std::size_t processors = 0;                      // see operation.h
};

// Of gradients: narrow ones are summed in single precision.
enum class Element : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

struct ReduceOptions {
  float scale = 1.0F;  // factor for every element of this rank's input (the weight of its samples)
  // Control lane: summed over all ranks in the same pass as the data, but never scaled; every rank reads the same sums.
  std::span<float> lane;
  bool want_norms = false;
  // As long as the data, or empty. When the call returns, also with an error, it holds this rank's input from before
  // the call, so that the same all-reduce can be repeated in another generation.
  std::span<float> keep;
  // Of the program's values from which the data were widened. Ranks that pass different ones get an error: each would
  // round the same sum in its own way.
  Element element = Element::kFloat32;
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

// Figures of one peer that this rank has a connection to. Shared memory has no figures of its own.
struct PeerFigures {
  std::uint32_t rank = 0;
  std::uint64_t bytes_sent = 0;  // since the communicator was built
  std::uint64_t bytes_received = 0;
  double round_trip_us = 0;  // the minimum that the kernel measured; 0: not known, or the peer is on this host
};

class DeviceSums;
class DeviceTransfers;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t world_size() const = 0;
  virtual Generation generation() const = 0;
  virtual Capabilities capabilities() const = 0;

  // In-place sum. Every rank gets bit-identical results. All ranks must pass the same sizes. A rank that does not
  // causes an error on every rank that notices, never a crash.
  virtual Status all_reduce(std::span<float> data, const ReduceOptions& options = {}, ReduceStats* stats = nullptr) = 0;
  virtual Status broadcast(std::span<std::byte> data, std::uint32_t root) = 0;
  // `all` holds world_size() equal blocks; block r is rank r's `mine`.
  virtual Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Point to point: between ranks of one host, and between neighbours in the topology. kInvalid for other pairs.
  virtual bool reaches(std::uint32_t peer) const = 0;
  virtual Status send(std::span<const std::byte> data, std::uint32_t to) = 0;
  virtual Status receive(std::span<std::byte> data, std::uint32_t from) = 0;
  // Exchange in both directions between two ranks that both call it; sizes may differ. By default one direction after
  // the other.
  virtual Status exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer);
  virtual Status barrier() = 0;

  // What only some back ends do (device_interfaces.h): null if this one does not.
  virtual DeviceSums* device_sums() { return nullptr; }
  virtual DeviceTransfers* device_transfers() { return nullptr; }

  // Checks, without waiting, whether a peer is known to be gone. For callers that wait for something other than a call.
  virtual Status check_peers();
  // The same of this rank alone: an error after abort(), or after another error. Any thread.
  virtual Status check_self() const;

  // The time limit of each later call; 0: a call waits until it is done or aborted.
  virtual void limit_operations(std::chrono::milliseconds timeout);

  // Ends the call in progress, here and (through closed connections) at the peers, with kAborted or kPeerLost. Any
  // thread may call it, any number of times.
  virtual void abort() noexcept = 0;

  virtual Traffic traffic() const = 0;
  // Costs one system call per peer. Only in a clique are all pairs connected.
  virtual std::vector<PeerFigures> peers() const = 0;
};

// Lets another thread stop a build. `cancel()` wakes a builder that is blocked in poll(2) within a millisecond.
class CancelToken;

// The one listening socket of a worker (TCP, and an abstract Unix socket for its host), kept over all generations.
// Thread: used by one builder at a time; endpoint() from any thread.
class DataListener;

struct ListenOptions {
  std::string host_key;                // equal for workers that can share memory
  std::vector<std::string> addresses;  // numeric addresses to bind and to advertise; empty: 127.0.0.1
};

// A communicator that wraps another one of the same generation, adds to it and forwards everything else.
// Ownership: the inner communicator. Thread, failure: as Communicator.

class OverCommunicator : public Communicator {
 public:
  std::uint32_t rank() const override { return host_->rank(); }
  std::uint32_t world_size() const override { return host_->world_size(); }
  Generation generation() const override { return host_->generation(); }
  Capabilities capabilities() const override { return host_->capabilities(); }
  Status all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) override {
    return passed_on(host_->all_reduce(data, options, stats));
  }
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override {
    return passed_on(host_->broadcast(data, root));
  }
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    return passed_on(host_->all_gather(mine, all));
  }
  bool reaches(std::uint32_t peer) const override { return host_->reaches(peer); }
  Status send(std::span<const std::byte> data, std::uint32_t to) override { return passed_on(host_->send(data, to)); }
  Status receive(std::span<std::byte> data, std::uint32_t from) override {
    return passed_on(host_->receive(data, from));
  }
  Status exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer) override {
    return passed_on(host_->exchange(sent, received, peer));
  }
  Status barrier() override { return passed_on(host_->barrier()); }
  Status check_peers() override { return host_->check_peers(); }
  Status check_self() const override { return host_->check_self(); }
  void limit_operations(std::chrono::milliseconds timeout) override { host_->limit_operations(timeout); }
  void abort() noexcept override { host_->abort(); }
  Traffic traffic() const override { return host_->traffic(); }
  std::vector<PeerFigures> peers() const override { return host_->peers(); }

 protected:
  explicit OverCommunicator(std::unique_ptr<Communicator> host) : host_(std::move(host)) {}
  // Checks a result of the inner communicator.
  virtual Status passed_on(Status status) { return status; }

  std::unique_ptr<Communicator> host_;
};

}  // namespace elastictrain::comm
