// Purpose: checks that the program of `run --torch` would be made elastic: its Python must have the package
// elastictrain, which torch loads by its entry point. Asks the interpreter on this machine, before anything is started.
//
// Thread: the caller's. Errors: kInvalid, with what to do; nothing is said of a program that is no Python or cannot be
// started, which tells of itself.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

Status check_torch_package(const std::vector<std::string>& program);

// Whether an interpreter finds the package, installed or by PYTHONPATH.
bool finds_package(const std::string& python);

}  // namespace elastictrain::cli
