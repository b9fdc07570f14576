// Purpose: a program's own collectives in a step. What they change in place is shared from a copy of the original, so
// that it can be shared again among the survivors after a loss. Ownership: the worker; the copies are the program's
// memory. Thread: the training thread; the reducer's after reserve_copy(). Failure: that of the communicator.
#pragma once

#include "supervisor/protocol/result.h"
#include "train/session/collective_gate.h"
#include "train/session/input_copies.h"
#include "train/session/reducer.h"
#include "train/session/seat.h"

namespace elastictrain::session {

class ProgramData {
 public:
  ProgramData(InputCopies& copies, const Seat& seat, const CollectiveGate& gate)
      : copies_(copies), seat_(seat), gate_(gate) {}

  // Makes room for the copy. On the training thread, where the room for copies of gradients is made.
  void reserve_copy(Bucket& bucket);

  Status share(Bucket& bucket);

 private:
  void restore_or_copy(Bucket& bucket);

  InputCopies& copies_;
  const Seat& seat_;
  const CollectiveGate& gate_;
};

}  // namespace elastictrain::session
