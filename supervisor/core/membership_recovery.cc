// The part of the state machine that brings a run back after a loss.
#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

void Membership::Impl::on(const HostNoticed&) {}
void Membership::Impl::on(const StacksCaptured&) {}
void Membership::Impl::on(const Resumed&) {}
void Membership::Impl::said(Worker&, const protocol::WorkerHalted&) {}

}  // namespace elastictrain::core
