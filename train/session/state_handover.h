// Purpose: state between workers around a change: this worker sends its slice to joiners while it computes, or receives
// the state that donors send. Pieces in device memory travel through the new generation's communicator.
//
// Ownership: the worker; one transfer in each direction at a time, each with a thread of its own. Thread: the training
// thread. Failure: a joiner that is gone is reported; a state that does not arrive makes the seat void. A header of
// another program ends the session.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "train/comm/device_interfaces.h"
#include "train/session/audits.h"
#include "train/session/collective_gate.h"
#include "train/session/control_plane.h"
#include "train/session/course.h"
#include "train/session/device_side.h"
#include "train/session/early_values.h"
#include "train/session/first_state.h"
#include "train/session/forward_state.h"
#include "train/session/lifecycle.h"
#include "train/session/replicas.h"
#include "train/session/seat.h"
#include "train/session/state_transfer.h"

namespace elastictrain::session {

// A seat whose state this worker has not received yet.
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
    const Seat& seat;
    const Course& course;
    const CollectiveGate& gate;
    Replicas& replicas;
    Audits& audits;
    Lifecycle& lifecycle;
  };
  explicit StateHandover(const Parts& parts) : parts_(parts) {}

  // This worker is a member of the seat's generation; it sends its slice to that generation's joiners.
  void send(TakenSeat& taken);
  // Waits for the donors' header and enters the loop; from then on the state arrives while the program computes.
  // nullopt: the seat is void, and no state was promised.
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
  std::uint64_t start_sending(TakenSeat& taken);
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
