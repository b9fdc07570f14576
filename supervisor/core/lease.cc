#include "supervisor/core/lease.h"

#include <string>
#include <vector>

#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/stop_cause.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {
namespace {

// "h1:0,1,3"
std::string text_of(const HostSlots& host) {
  std::string text = host.host;
  for (std::uint32_t slot : host.only) text += (text.size() == host.host.size() ? ":" : ",") + std::to_string(slot);
  return text;
}

}  // namespace

Lease::Lease(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, TakeoverState& resume,
             Training& training, Recovery& recovery, DesiredState& desired, RunEnd& end, HostList& hosts, Halt& halt,
             Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      startup_(startup),
      resume_(resume),
      training_(training),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      hosts_(hosts),
      halt_(halt),
      ending_(ending) {}

// The supervisor that took this lease was lost before the run had left.
bool Lease::is_left_undone(const LeaseGiven& event) const {
  return event.version == desired_.lease.version && desired_.lease.slots < settings_.min_workers &&
         settings_.has_checkpoints && !roster_.workers().empty() && !end_.begun();
}

void Lease::on(const LeaseGiven& event) {
  if (is_left_undone(event)) return suspend();
  // The supervisor that took this lease may have been lost before it acted on it.
  const bool is_taken = event.version == desired_.lease.version && event.version != applied_;
  if (is_taken && startup_.hosts_known && desired_.lease.slots >= settings_.min_workers) {
    applied_ = event.version;
    return hosts_.offer(event.hosts);
  }
  // A run that begins again has no slots: what it had is given to it anew, perhaps by the same version.
  const bool anew = event.version == desired_.lease.version && !startup_.hosts_known && !event.hosts.empty();
  if (event.version < desired_.lease.version || (event.version == desired_.lease.version && !anew)) {
    if (event.version < desired_.lease.version) out_.journal(record::LeaseIgnored{event.version});
    return;
  }
  record::LeaseTaken taken{event.version, 0, {}, event.reason, {}, {}};
  if (event.hold) taken.hold = true;
  if (event.moves) taken.moves = true;
  for (const HostSlots& host : event.hosts) {
    taken.slots += host.usable();
    taken.hosts.push_back(text_of(host));
  }
  desired_.lease = {event.version, taken.slots, event.reason, event.hold, event.moves};
  out_.journal(std::move(taken));
  applied_ = event.version;
  out_.look_again();
  const bool enough = desired_.lease.slots >= settings_.min_workers;
  if (enough) return hosts_.offer(event.hosts);
  if (roster_.workers().empty()) return wait();
  if (settings_.has_checkpoints) return suspend();
  out_.tell(Tell::Level::kWarning, "the cluster leases " + counted(desired_.lease.slots, "slot") + ", but at least " +
                                       counted(settings_.min_workers, "worker") +
                                       " must train, and there is no checkpoint.directory to leave a state in: the "
                                       "run keeps what it needs");
  hosts_.offer(event.hosts);
}

// A recovery without a loss, which goes on when the lease says so: every worker halts where it is, with its state and
// the gradients of its open step, and a generation of the same workers repeats only their sum.
void Lease::advance() {
  const bool trains = training_.generation != 0 && !training_.members.empty() && !resume_.waiting;
  if (!desired_.lease.hold || !trains || recovery_.active() || end_.begun()) return;
  halt_.begin_recovery(std::string(reason_of(StopCause::kSuspended)) +
                       (desired_.lease.reason.empty() ? "" : ": " + desired_.lease.reason));
}

// As before its first lease: nothing is started, and nothing is late.
void Lease::wait() {
  if (startup_.hosts_known) hosts_.offer({});
  startup_.hosts_known = false;
  startup_.expired = false;
  out_.cancel(startup_.timer);
  out_.cancel(startup_.min_timer);
  out_.look_again();
}

void Lease::suspend() {
  end_.suspended = true;
  ending_.begin_end(EndMode::kDraining, status_of(StopCause::kSuspended),
                    std::string(reason_of(StopCause::kSuspended)) +
                        (desired_.lease.reason.empty() ? "" : ": " + desired_.lease.reason));
}

}  // namespace elastictrain::core
