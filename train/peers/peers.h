// Purpose: calls that KungFu (OSDI 2020) offers its programs besides training, as an extension of the session.
#pragma once

#include "train/peers/pair_averaging.h"
#include "train/peers/store_access.h"
#include "train/session/extension.h"

// Calls that KungFu (OSDI 2020) offers its programs besides training, as the session's extension: a store that
// other workers read, latencies to all of them, and averaging of models in pairs.
//
// Ownership: the worker. Thread: as extension.h says; the store has a thread of its own. Failure: as extension.h says.

namespace elastictrain::peers {

class Peers final : public session::Extension {
 public:
  explicit Peers(const session::ExtensionHost& host)
      : is_enabled_(host.is_enabled),
        store_(host.environment, host.assignment, host.gate),
        pairs_(host.models, host.assignment, host.run_progress, store_),
        assignment_(host.assignment) {}

  void enable_store();
  StoreAccess& store() { return store_; }

  void begin() override;
  void end() override;
  Status after_first_sum() override;
  Status average_in_pairs(bool contributes) override { return pairs_.swap_models(contributes); }
  void average_with_read_model() override { pairs_.take_read_model(); }
  void publish_model() override { pairs_.publish_model(); }

 private:
  bool& is_enabled_;
  StoreAccess store_;
  PairAveraging pairs_;
  const session::Assignment& assignment_;
};

}  // namespace elastictrain::peers
