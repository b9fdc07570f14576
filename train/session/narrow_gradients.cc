#include "train/session/narrow_gradients.h"

#include "train/session/half_floats.h"

namespace elastictrain::session {

void NarrowGradients::make_room(Bucket& bucket) {
  if (bucket.narrow != nullptr) bucket.data = wide_.of_bucket(bucket.index, bucket.count).data();
}

void NarrowGradients::widen(const OpenStep& step, Bucket& bucket) {
  if (bucket.narrow == nullptr || bucket.copied || !step.has_samples()) return;
  const auto* const from = static_cast<const std::uint16_t*>(bucket.narrow);
  widen_floats(bucket.element == comm::Element::kFloat16, from, bucket.data, bucket.count);
  bucket.is_widened = true;
}

void NarrowGradients::round(const Bucket& bucket) {
  if (bucket.narrow == nullptr) return;
  auto* const into = static_cast<std::uint16_t*>(bucket.narrow);
  round_floats(bucket.element == comm::Element::kFloat16, bucket.data, into, bucket.count);
}

}  // namespace elastictrain::session
