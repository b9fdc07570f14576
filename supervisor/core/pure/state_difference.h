// Purpose: the first difference between the states of two workers, for people. Pure.
// Thread: any. Failure: none; texts that are cut are compared as far as they go.
#pragma once

#include <string>
#include <string_view>

namespace elastictrain::core {

// `mine` and `others`: a line for each item (protocol::WorkerReady::state_items). Returns the first difference as a
// part of a sentence about the worker with `mine`.
std::string first_difference(std::string_view mine, std::string_view others);

}  // namespace elastictrain::core
