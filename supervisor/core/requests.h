// Purpose: answers users, policies and the program. Each request changes the desired state and is answered at once; the
// progress towards it is reported and recorded as it happens. A TERM that a single worker got from a process other than
// its agent is such a request too: it is replaced. A system that ends a job or a host sends TERM to every process
// there; agents and the run get it as well, and their plan lets the workers leave.
#pragma once

#include <string>

#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/run.h"

namespace elastictrain::core {

void on(Run& run, const Resize& event);
void on(Run& run, const ReplaceWorker& event);
void on(Run& run, const ReplaceHost& event);
void on(Run& run, const DrainHost& event);
void on(Run& run, const UndrainHost& event);
void on(Run& run, const UpdatePlan& event);
void on(Run& run, const Stop& event);
void on(Run& run, const StopNow& event);
void on_message(Run& run, Worker& worker, const protocol::WorkerRequest& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerNote& message);
void answer_notices(Run& run);
void refuse(Run& run, std::uint64_t request, const std::string& text);
std::string refusal(const Run& run, Phase phase);

}  // namespace elastictrain::core
