// Purpose: answers what the supervisor asks about a worker of this host (README.md has the recipe for a new question).
//
// Ownership: the caller's workers are only read. Thread: the io_context's thread, never blocked. Errors: in the lines;
// `done` is called at most once, within the time limit.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/worker.h"
#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::launcher {

using Workers = std::map<WorkerId, std::unique_ptr<Worker>>;

void answer_question(asio::io_context& io, const protocol::AskAgent& asked, const Workers& workers,
                     std::function<void(std::vector<std::string> lines)> done);

}  // namespace elastictrain::launcher
