// The part of the state machine that takes a run over from a supervisor that is gone.
#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

void Membership::Impl::on(const Resumed&) {}

}  // namespace elastictrain::core
