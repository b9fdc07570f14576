// Purpose: protects running workers from new ones. A worker that could not join costs no failure budget, and where
// ranks disagree the members of the newest change that are still on probation go; the others repeat the step. After two
// such tries the run stays at its size, until a user asks for another one.
#pragma once

#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

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
