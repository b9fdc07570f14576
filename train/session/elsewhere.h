// Purpose: sums of a step that the program makes elsewhere, in other processes of its worker: when they are started,
// with which input, and their end.
#pragma once

#include <optional>
#include <string>

#include "supervisor/protocol/encryption.h"
#include "supervisor/protocol/result.h"
#include "train/session/collective_gate.h"
#include "train/session/generation.h"
#include "train/session/gradients.h"
#include "train/session/monitors.h"
#include "train/session/step_buckets.h"

// As with a device the sums are started one by one behind the lane, and the host waits once for all of them. What fails
// there is a failure of this communicator, so that nobody waits for a worker that has given up.
//
// Ownership: the worker. Thread: reduce() on the thread that reduces; finish() and abandon() on the training thread,
// when no other thread reduces. Failure: kPeerLost with the program's sentence; that of an exchange in the program's
// function.

namespace elastictrain::session {

class ElsewhereSums {
 public:
  ElsewhereSums(protocol::Encryption encryption, const HostGradients& host, const Assignment& assignment,
                const CollectiveGate& gate)
      : encryption_(encryption), host_(host), assignment_(assignment), gate_(gate) {}

  Status reduce(const OpenStep& step, Bucket& bucket);
  // Waits for all sums that were started.
  Status finish(OpenStep& step);
  // After the failure of another collective: the memory of the sums is the program's again.
  void abandon();

 private:
  bool is_its_own_sum(const OpenStep& step, const Bucket& bucket) const;
  SumElsewhere describe(const OpenStep& step, const Bucket& bucket);
  Status start(const OpenStep& step, Bucket& bucket);
  Status end(SumsElsewhere& sums);
  Status failed(std::string why) const;
  bool is_broken();

  const protocol::Encryption encryption_;
  const HostGradients& host_;
  const Assignment& assignment_;
  const CollectiveGate& gate_;
  FinishElsewhere finish_;  // of the sums that go on; empty: none
  std::optional<Clock::time_point> peers_gone_since_;
};

}  // namespace elastictrain::session
