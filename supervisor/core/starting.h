// Purpose: starts a run, and new workers from their launch to the end of their probation; where ranks disagree the
// newest members go.
#pragma once

#include <cstddef>
#include <string>

#include "supervisor/core/run.h"

// Starts a run, from hosts to the first generation: whether the run may start, and new workers until they can
// be members: they join the run, report that they are ready, or fail. A program that does not use the library is
// started again as a whole after a failure, as often as the settings allow (torchrun's --max-restarts).

namespace elastictrain::core {

void on_message(Run& run, Worker& worker, const protocol::WorkerHello& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerReady& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerAsksEpoch& message);
void on(Run& run, const WorkerSpawnFailed& event);

// Enough slots are there, or no more will come. False: not yet, or the run has failed.
bool may_start(Run& run);
// Before it starts, or starts again: the cluster says when.
bool waits_for_lease(const Run& run);
// No host has answered yet, and some are asked or will be.
bool asks_hosts(const Run& run);
// An agent was lost before anything trained, and its host is tried again: as long as at the start.
bool waits_for_hosts(Run& run);
std::string why_too_few(const Run& run, std::size_t count);

// A process of a plain program failed, `why` says how. Ends the others; false if no restart is left: the run fails.
bool restart_plain(Run& run, const std::string& why);
// Processes of before the restart are still ending: none is started meanwhile.
bool clears_plain(Run& run);

// Protects running workers from new ones. A worker that could not join costs no failure budget, and where
// ranks disagree the members of the newest change that are still on probation go; the others repeat the step. After two
// such tries the run stays at its size, until a user asks for another one.

// The change is about to be committed: those of its members that are in no generation yet begin their probation.
void begin_probation(Run& run);
void note_heartbeat(Run& run, WorkerId id, const protocol::WorkerHeartbeat& heartbeat);
void on_message(Run& run, Worker& worker, const protocol::WorkerDeclines& message);
void on_disagreement(Run& run, Worker& worker, const protocol::WorkerHalted& message);
// Its program ended by itself, without the others. False: it is nobody new, and the run ends.
bool ended_alone(Run& run, Worker& worker);
// The process of a member has exited. False: it is a loss like any other.
bool newcomer_exited(Run& run, WorkerId id, bool by_itself, bool good, const std::string& text);
bool newcomer_hung(Run& run, WorkerId id, const std::string& text);
// A worker in no generation has ended in good order. Where no other has the state, two such end the run.
void ended_before_joining(Run& run, const std::string& text);

}  // namespace elastictrain::core
