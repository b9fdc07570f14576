// Purpose: records about a run as a whole: its supervisors, its requests to end, its end, its journal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core::record {

// What each supervisor writes first.
struct SupervisorStart {
  std::uint32_t schema = 1;  // a journal without this field has version 1
  std::string run;
  std::string version;
  std::int64_t pid = 0;
  std::uint32_t port = 0;
  std::vector<std::string> command;
  std::uint32_t min_workers = 0;
  std::uint32_t start_workers = 0;
  std::uint32_t max_workers = 0;
  std::optional<std::string> boot;  // which boot of the supervisor's machine, if it can be told
};
#define ET_SUPERVISOR_START_FIELDS                                                                               \
  ET_FIELD(schema).since(2), ET_FIELD(run), ET_FIELD(version), ET_FIELD(pid), ET_FIELD(port), ET_FIELD(command), \
      ET_FIELD(min_workers), ET_FIELD(start_workers), ET_FIELD(max_workers), ET_FIELD(boot).since(5)

struct RunOpened : SupervisorStart {
  using Base = SupervisorStart;
  std::optional<bool> leased;  // the run's hosts are those that a cluster leases to it
};
ET_RECORD(
    RunOpened, "run_opened",
    "A new run begins. Records before it belong to an older run of the same name. `leased`: its hosts are those that a "
    "cluster leases to it. `boot`: a successor in another boot of the machine expects records to be missing.",
    ET_SUPERVISOR_START_FIELDS, ET_FIELD(leased).since(4))

struct RunResumed : SupervisorStart {
  using Base = SupervisorStart;
  std::optional<bool> anew;  // no agent or worker of an earlier supervisor is left
  std::optional<bool> leased;
};
ET_RECORD(RunResumed, "run_resumed",
          "Another supervisor continues the run. `anew`: no agent and no worker of an earlier one is left.",
          ET_SUPERVISOR_START_FIELDS, ET_FIELD(anew), ET_FIELD(leased).since(4))
#undef ET_SUPERVISOR_START_FIELDS

struct RunClosed {
  std::int64_t exit_status = 0;
  std::string reason;
  std::optional<Step> step;
  std::optional<double> loss;
};
ET_RECORD(RunClosed, "run_closed",
          "The supervisor has ended and has left nothing behind. `step` is the last one that was committed, `loss` is "
          "that step's, where the program reports it.",
          ET_FIELD(exit_status), ET_FIELD(reason), ET_FIELD(step).since(7), ET_FIELD(loss).since(7))

struct TakenOver {
  Generation generation = 0;
  std::uint64_t agents = 0;
  std::uint64_t workers = 0;
  bool unsettled = false;
};
ET_RECORD(TakenOver, "taken_over",
          "The state of the run was read back. `unsettled`: an earlier supervisor was lost in the middle of a change.",
          ET_FIELD(generation), ET_FIELD(agents), ET_FIELD(workers), ET_FIELD(unsettled))

struct AllBack {
  Generation generation = 0;
  std::uint64_t workers = 0;
};
ET_RECORD(AllBack, "all_back", "After a takeover every agent has connected again or was given up.",
          ET_FIELD(generation), ET_FIELD(workers))

struct StopRequested {
  std::uint64_t request = 0;
  std::string cause;
};
ET_RECORD(StopRequested, "stop_requested", "The run is to end at the next step boundary.", ET_FIELD(request),
          ET_FIELD(cause))

struct StopNowRequested {};
ET_RECORD(StopNowRequested, "stop_now_requested", "The run is to end at once.")

struct Ending {
  std::string reason;
  bool now = false;
};
ET_RECORD(Ending, "ending", "The run begins to end. `now`: without waiting for a step boundary.", ET_FIELD(reason),
          ET_FIELD(now))

struct Failed {
  std::int64_t status = 0;
  std::string reason;
};
ET_RECORD(Failed, "failed", "The run cannot continue.", ET_FIELD(status), ET_FIELD(reason))

struct End {
  std::int64_t status = 0;
  std::string reason;
};
ET_RECORD(End, "end", "The run has ended; agents are being stopped.", ET_FIELD(status), ET_FIELD(reason))

struct AccountsAwaited {
  std::uint64_t missing = 0;
  std::uint64_t open = 0;
  std::vector<AgentId> agents;
};
ET_RECORD(AccountsAwaited, "accounts_awaited",
          "The end waits for the sample accounts of agents that were given up for their silence.", ET_FIELD(missing),
          ET_FIELD(open), ET_FIELD(agents))

struct Audit {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t samples = 0;
  std::uint64_t missing = 0;
  std::uint64_t unaccounted = 0;
  std::uint64_t repeated = 0;
  std::uint64_t hashes_compared = 0;
  std::uint64_t unequal_hashes = 0;
};
ET_RECORD(
    Audit, "audit",
    "The result of the audit at the end of a run. `unaccounted`: samples of its last steps that workers may have used, "
    "because they ended before they had told it.",
    ET_FIELD(steps), ET_FIELD(epochs), ET_FIELD(samples), ET_FIELD(missing), ET_FIELD(unaccounted).since(7),
    ET_FIELD(repeated), ET_FIELD(hashes_compared), ET_FIELD(unequal_hashes))

struct AuditViolation {
  WorkerId worker;
  std::string what;
};
ET_RECORD(AuditViolation, "audit_violation", "The audit found samples or states that contradict each other.",
          ET_FIELD(worker), ET_FIELD(what))

struct InvariantBroken {
  std::string trigger;
  std::string what;
};
ET_RECORD(InvariantBroken, "invariant_broken",
          "A condition that must hold does not, which is an error of this program. `trigger`: what was being handled.",
          ET_FIELD(trigger).since(2), ET_FIELD(what))

struct ConnectionRejected {
  std::string address;
  std::string reason;
  std::uint64_t times = 0;
};
ET_RECORD(ConnectionRejected, "connection_rejected", "A peer connected that is not an agent of this run.",
          ET_FIELD(address), ET_FIELD(reason), ET_FIELD(times))

struct JournalTorn {
  std::uint64_t bytes = 0;
};
ET_RECORD(JournalTorn, "journal_torn", "The line before this one was cut off when its writer was killed.",
          ET_FIELD(bytes))

struct JournalGap {
  std::uint64_t lost = 0;
};
ET_RECORD(JournalGap, "journal_gap", "So many records could not be written; `run_state` follows.", ET_FIELD(lost))

using RunRecords = RecordList<RunOpened, RunResumed, RunClosed, TakenOver, AllBack, StopRequested, StopNowRequested,
                              Ending, Failed, End, AccountsAwaited, Audit, AuditViolation, InvariantBroken,
                              ConnectionRejected, JournalTorn, JournalGap>;

}  // namespace elastictrain::core::record
