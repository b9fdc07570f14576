// Purpose: the replica of the model with which this worker continues: its own, or the one that donors send. If replicas
// may differ, the donors' state arrives beside this worker's until it is known which of the two counts.
//
// Ownership: the worker; it holds a second copy of the state while one arrives beside. Thread: the training thread.
// Failure: none.
#pragma once

#include <cstddef>
#include <vector>

#include "train/state/state_buffers.h"

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

}  // namespace elastictrain::session
