// Purpose: losses of workers and members that make no progress: whose fault each is, which budget it counts against,
// and which worker or host is ended for it.
#pragma once

#include <string>

#include "supervisor/core/run.h"

// Judges exits and losses: expected, a failed joiner, or the loss of a member; whether the run tolerates it
// (budgets, what follows from a loss, progress between recoveries), and which host is blamed.

namespace elastictrain::core {

void on(Run& run, const WorkerExited& event);
// A member of a generation has exited, or is about to be ended; the roster is already updated.
void lose_member(Run& run, const Loss& loss);
void forget_repaired_losses(Run& run);
// The last worker of a run that ends anyway is lost.
void end_without(Run& run, const Loss& loss, const char* why);
// The same program with the same data would only fail again.
bool is_bad_code(const Run& run);
void note_progress(Run& run, const protocol::WorkerHeartbeat& heartbeat);
// Once for each fence: whether a step was committed since the one before.
void note_recovery(Run& run);
// The run begins again: progress is counted from its first step.
void count_progress_from(Run& run, Generation generation, Step first_step);
void blame_host(Run& run, const Loss& loss);
// A generation is complete: hosts that failed before are on probation from here on.
void trust_hosts(Run& run);

// Acts on members that make no progress: asks what they wait for, reconnects the data plane, ends the worker
// at fault.

void act_on_hang(Run& run, const HangFinding& finding);
// The others continue without it at once, and its process is killed as soon as its stacks are known.
void end_hung(Run& run, Worker& worker, const std::string& what, FailureClass as = FailureClass::kHang);
// The silence of an agent after which it is not known what its workers do: two missing heartbeats.
Millis out_of_sight_after(const RunSettings& settings);
// What its program does is not known, or was not until just now: its agent is silent, is cut off, or has come back less
// than that time ago, so that an answer of the worker may still be on its way.
bool is_out_of_sight(const Run& run, const Worker& worker);
void on(Run& run, const AgentAnswered& event);

}  // namespace elastictrain::core
