// Purpose: the program's requests for a change of the run. All workers may ask; the first rank's request counts, and
// one that is already pending is not sent again. Ownership: the worker. Thread: the training thread. Failure: none.
#pragma once

#include "supervisor/protocol/worker_messages.h"
#include "train/session/reports.h"
#include "train/session/seat.h"

namespace elastictrain::session {

class Requests {
 public:
  Requests(const Seat& seat, const Reports& reports) : seat_(seat), reports_(reports) {}

  void ask(const protocol::WorkerRequest& request);

 private:
  const Seat& seat_;
  const Reports& reports_;
  protocol::WorkerRequest asked_;  // the latest
};

}  // namespace elastictrain::session
