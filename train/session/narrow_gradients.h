// Purpose: gradients in 16 bits in host memory: memory for their values in single precision, in which they are summed
// and kept, and the way there and back.
//
// Ownership: the worker. Thread: make_room() on the training thread, the rest on the thread that reduces. Failure:
// none.
#pragma once

#include "train/session/input_copies.h"
#include "train/session/open_step.h"

namespace elastictrain::session {

class NarrowGradients {
 public:
  // Nothing happens to buckets in single precision.
  void make_room(Bucket& bucket);
  // Before a sum, unless its input was kept or is nothing.
  static void widen(const OpenStep& step, Bucket& bucket);
  // After it: every value is rounded once.
  static void round(const Bucket& bucket);

 private:
  InputCopies wide_;
};

}  // namespace elastictrain::session
