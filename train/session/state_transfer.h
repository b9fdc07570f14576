// Purpose: transfer of the replicated state to joiners while all workers compute: slices of several donors over
// sockets, hashes by which a joiner compares the donors, and the list of pieces that travel from device to device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"
#include "train/comm/cpu_communicator.h"
#include "train/comm/device_interfaces.h"
#include "train/comm/socket.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

// Checks that donors hold the same state. Besides its own slice each donor sends hashes of the next donor's,
// and the joiner compares them with what that one sent: no joiner takes parts of different states for one. A piece that
// only a donor holds otherwise that neither sends nor compares it is not found; audit mode finds it.
//
// Ownership: none. Thread: the transfer's. Failure: memory of a device that cannot be read.

namespace elastictrain::session {

enum class DeviceState { kThroughHost, kElsewhere };

// Of each piece of the slice, in order. Pieces in device memory that travel elsewhere have none.
Result<std::vector<std::uint64_t>> piece_hashes(const state::StateBuffers& buffers, state::Slice slice,
                                                DeviceState device_state);
// How many there are.
std::size_t piece_count(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state);
// The name of the buffer that holds the piece.
std::string piece_name(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state,
                       std::size_t piece);

// Transfers of pieces of state between devices when workers join: the donors' slices, as in state_transfer.h,
// without the state in host memory. Thread: pure. Failure: none.

// The transfers of `rank`, in the same order for both ends of a pair. Empty if no worker joins.
std::vector<comm::DeviceTransfer> device_transfers(const state::StateBuffers& buffers,
                                                   const protocol::GenerationPlan& plan, std::uint32_t rank);

// Sends the replicated state to joiners while all workers compute. Every donor sends its slice of the bytes to
// every joiner, after a header with the progress of the run, and behind it hashes of another donor's slice. A joiner
// assembles the slices; it refuses them if two donors hold different state (kInvalid).
//
// State in device memory may be sent from device to device instead; it is skipped here then.
//
// Ownership: the session, one sender or one receiver at a time. Thread: each has one thread of its own. The state must
// not be written while a sender exists and not be read while a receiver exists. Failure: a sender gives up on a joiner
// that is gone and continues with the others. A receiver fails if one slice is missing. Both end at their deadline or
// when destroyed.

class StateSender {
 public:
  // `compared`: the slice of which hashes are sent. `cancel` ends the transfer; so does the destructor.
  StateSender(std::vector<comm::StateSocket> joiners, const state::TransferHeader& header, state::Slice compared,
              const state::StateBuffers& buffers, std::chrono::milliseconds time_limit,
              std::shared_ptr<comm::CancelToken> cancel, DeviceState device_state = DeviceState::kThroughHost);
  ~StateSender();
  // The first error with any joiner.
  Status wait();

 private:
  void run();
  Status send_slice();
  Status send_hashes();
  void send_to_all(std::span<const std::byte> bytes);

  std::vector<comm::StateSocket> joiners_;
  const state::TransferHeader header_;
  const state::Slice compared_;
  const state::StateBuffers& buffers_;
  const comm::Deadline deadline_;
  const std::shared_ptr<comm::CancelToken> cancel_;
  const DeviceState device_state_;
  Status failure_;
  std::thread thread_;
};

class StateReceiver {
 public:
  // `donors`: one socket per donor, in the order of their slices. `on_header` is called on the receiver's thread when
  // header() has a result.
  StateReceiver(std::vector<comm::StateSocket> donors, Generation generation, std::uint64_t sample_count,
                const state::StateBuffers& buffers, std::chrono::milliseconds time_limit,
                std::shared_ptr<comm::CancelToken> cancel, std::function<void()> on_header,
                DeviceState device_state = DeviceState::kThroughHost);
  ~StateReceiver();

  // The donors' header once all of them have swapped; nullopt before.
  std::optional<Result<state::TransferHeader>> header();
  Status wait();

 private:
  struct Source {
    comm::StateSocket socket;
    state::Slice slice;
    state::Slice compared;
    std::vector<std::byte> header_bytes = std::vector<std::byte>(state::kHeaderPrefixBytes);  // grows to its full size
    std::uint64_t received = 0;  // of the header, then of the slice
    std::vector<std::byte> hashes;
    std::size_t hash_bytes = 0;  // received
    bool header_done = false;
    bool done = false;
  };

  void run();
  Status receive_everything();
  Status poll_sources(bool headers);
  Status drain(Source& source, bool headers);
  Status receive_header(Source& source);
  Status receive_slice(Source& source);
  Status receive_hashes(Source& source);
  Result<std::size_t> receive_some(Source& source, std::span<std::byte> into);
  Status check_headers();
  Status compare() const;
  Error unequal(const Source& one, const Source& other, std::size_t piece) const;
  void publish_header(Result<state::TransferHeader> header);

  std::vector<Source> sources_;
  const Generation generation_;
  const std::uint64_t sample_count_;
  const state::StateBuffers& buffers_;
  const std::chrono::milliseconds time_limit_;
  const std::shared_ptr<comm::CancelToken> cancel_;
  const std::function<void()> on_header_;
  const DeviceState device_state_;
  comm::Deadline deadline_ = comm::Deadline::max();
  state::HostView view_;
  std::mutex mutex_;
  std::optional<Result<state::TransferHeader>> header_;
  Status failure_;
  std::thread thread_;
};

}  // namespace elastictrain::session
