// Purpose: state of this worker around a change: broadcast from the first rank in a first generation, slices sent to
// joiners or received from donors, and the replica that counts where replicas may differ.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/device_interfaces.h"
#include "train/session/audit.h"
#include "train/session/auxiliary_state.h"
#include "train/session/collective_gate.h"
#include "train/session/control_plane.h"
#include "train/session/device_access.h"
#include "train/session/generation.h"
#include "train/session/lifecycle.h"
#include "train/session/run_progress.h"
#include "train/session/state_transfer.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

// The replica of the model with which this worker continues: its own, or the one that donors send. If replicas
// may differ, the donors' state arrives beside this worker's until it is known which of the two counts.
//
// Ownership: the worker; it holds a second copy of the state while one arrives beside. Thread: the training thread.
// Failure: none.

namespace elastictrain::session {

class Replicas {
 public:
  explicit Replicas(const state::StateBuffers& buffers) : buffers_(buffers) {}

  // The replica in the program's memory is complete.
  bool is_whole() const { return is_whole_; }
  void set_whole() { is_whole_ = true; }

  // The buffers for the donors' state: the program's, or separate ones if this worker's replica may count.
  const state::StateBuffers& begin_receiving(bool may_keep_own);
  // The donors' header decides it.
  void keep_own(bool keeps) { keeps_own_ = keeps; }
  bool keeps_own() const { return keeps_own_; }
  // The donors' state has arrived, or this worker's own counts and it did not.
  void received();

 private:
  const state::StateBuffers& buffers_;
  std::vector<std::byte> shadow_memory_;
  state::StateBuffers shadow_;
  bool is_whole_ = false;
  bool receives_shadow_ = false;
  bool keeps_own_ = false;  // while it receives the donors' state
};

// Gives all workers of a first generation the state of the first rank: its header, then the program's buffers.
// Ownership: none. Thread: the training thread. Failure: kInvalid if the first rank runs another program or state in
// device memory cannot be copied, otherwise that of the communicator.

// `mine`: this worker's header, which must have the same layout and data. Returns the first rank's.
Result<state::TransferHeader> broadcast_header(const Assignment& assignment, const state::TransferHeader& mine);
// Returns the names of the buffers in host memory that held something else here. `compares`: look for them, one more
// pass over the state before and after it arrives.
Result<std::vector<std::string>> broadcast_state(const Assignment& assignment, const state::StateBuffers& buffers,
                                                 bool compares);

// State between workers around a change: this worker sends its slice to joiners while it computes, or receives
// the state that donors send. Pieces in device memory travel through the new generation's communicator.
//
// Ownership: the worker; one transfer in each direction at a time, each with a thread of its own. Thread: the training
// thread. Failure: a joiner that is gone is reported; a state that does not arrive makes the assignment void. A header
// of another program ends the session.

// An assignment whose state this worker has not received yet.
struct PromisedState {
  protocol::GenerationPlan plan;
  std::vector<comm::StateSocket> sockets;
  std::shared_ptr<comm::CancelToken> cancel;
  bool may_keep_replica = false;  // this worker's own counts if replicas differ at the donors' step
};

class StateHandover {
 public:
  struct Parts {
    WorkerId self;
    ControlPlane* plane;  // null without a launcher: no state is handed over
    const state::StateBuffers& buffers;
    const EarlyValues& early;
    ForwardState& forward;
    FirstState& first;
    const std::unique_ptr<DeviceSide>& device;
    const Assignment& assignment;
    const RunProgress& run_progress;
    const CollectiveGate& gate;
    Replicas& replicas;
    Audits& audits;
    Lifecycle& lifecycle;
  };
  explicit StateHandover(const Parts& parts) : parts_(parts) {}

  // This worker is a member of the assignment's generation; it sends its slice to that generation's joiners.
  void send(TakenAssignment& taken);
  // Waits for the donors' header and enters the loop; from then on the state arrives while the program computes.
  // nullopt: the assignment is void, and no state was promised.
  std::optional<state::TransferHeader> receive(PromisedState promise);
  // Pieces in device memory, whose transfers are not started yet: donors and joiners meet there, so they are started as
  // a collective, on the thread that reduces, before the generation's first sum.
  bool has_device_transfers() const { return device_transfers_.has_value(); }
  Status start_device_transfers();
  // Waits for all transfers. Call it before the state changes.
  Status finish();
  // From this point on the state may change; it is neither sent nor received.
  void drop();
  // Before the end of this process: what joiners need is sent first.
  void finish_sending();

  // This worker's state is still on its way.
  bool is_receiving() const { return receiver_ != nullptr; }
  // Whether this worker's model is complete: it is not while another one arrives that replaces it.
  bool own_model_counts() const { return !receiver_ || parts_.replicas.keeps_own(); }
  // What this worker's header says, without a slice.
  state::TransferHeader header() const;

 private:
  bool await_header();
  bool accept(const state::TransferHeader& header, bool may_keep_replica);
  std::uint64_t start_sending(TakenAssignment& taken);
  void plan_device_transfers(const protocol::GenerationPlan& plan);
  Status finish_device_transfers();
  bool moves_on_devices() const;
  DeviceState device_state() const;
  void received();

  const Parts parts_;
  std::unique_ptr<StateSender> sender_;
  std::unique_ptr<StateReceiver> receiver_;
  std::optional<std::vector<comm::DeviceTransfer>> device_transfers_;
};

}  // namespace elastictrain::session
