// Purpose: the program's requests for a change of the run. All workers may ask; the first rank's request counts, and
// one that is already pending is not sent again. A program that changes its mind in each of its fast steps sends its
// latest request with the next heartbeat.
//
// Ownership: the worker. Thread: the training thread; take_waiting() is the control thread's. Failure: none.
#pragma once

#include <mutex>
#include <optional>

#include "supervisor/protocol/allowance.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/session/reports.h"
#include "train/session/seat.h"

namespace elastictrain::session {

class Requests {
 public:
  Requests(const Seat& seat, const Reports& reports) : seat_(seat), reports_(reports) {}

  void ask(const protocol::WorkerRequest& request, protocol::Allowance::TimePoint now);
  std::optional<protocol::WorkerRequest> take_waiting();

 private:
  void send(const protocol::WorkerRequest& news, protocol::Allowance::TimePoint now);

  const Seat& seat_;
  const Reports& reports_;
  protocol::WorkerRequest asked_;  // the latest
  protocol::Allowance allowance_{20, 4};
  std::mutex mutex_;
  std::optional<protocol::WorkerRequest> waiting_;  // guarded by mutex_
};

}  // namespace elastictrain::session
