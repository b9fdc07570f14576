#include "train/session/replicas.h"

#include "supervisor/protocol/check.h"

namespace elastictrain::session {

const state::StateBuffers& Replicas::begin_receiving(bool may_keep_own) {
  ET_CHECK(is_whole_ || !may_keep_own, "only a complete replica may count besides the donors'");
  receives_shadow_ = is_whole_ = may_keep_own;
  if (!receives_shadow_) return buffers_;
  shadow_ = buffers_.shadow(shadow_memory_);
  return shadow_;
}

void Replicas::received() {
  if (receives_shadow_ && !keeps_own_) buffers_.copy_from(shadow_);
  shadow_ = {};
  shadow_memory_ = {};
  keeps_own_ = false;
  is_whole_ = true;
}

}  // namespace elastictrain::session
