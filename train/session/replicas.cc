#include "train/session/replicas.h"

#include "supervisor/protocol/check.h"

namespace elastictrain::session {

const state::StateBuffers& Replicas::begin_receiving(bool may_keep_own) {
  ET_CHECK(is_whole_ || !may_keep_own, "only a complete replica may count besides the donors'");
  receives_beside_ = is_whole_ = may_keep_own;
  if (!receives_beside_) return buffers_;
  beside_ = buffers_.shadow(beside_memory_);
  return beside_;
}

void Replicas::received() {
  if (receives_beside_ && !keeps_own_) buffers_.copy_from(beside_);
  beside_ = {};
  beside_memory_ = {};
  keeps_own_ = false;
  is_whole_ = true;
}

}  // namespace elastictrain::session
