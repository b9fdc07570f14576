// Purpose: checks of a run's Python program on this machine before anything starts: its interpreter has the package,
// and a new worker could take over from an unchanged script.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

// Checks that the program of `run --torch` would be made elastic: its Python must have the package
// elastictrain, which torch loads by its entry point. Asks the interpreter on this machine, before anything is started.
//
// Thread: the caller's. Errors: kInvalid, with what to do; nothing is said of a program that is no Python or cannot be
// started, which tells of itself.

namespace elastictrain::cli {

Status check_torch_package(const std::vector<std::string>& program);

// Whether an interpreter finds the package, installed or by PYTHONPATH.
bool finds_package(const std::string& python);

// `check --script`: trains a PyTorch script that changes nothing for some steps on this machine, and tries
// whether another process could take over from it, as a worker that joins a run does. The package elastictrain does it.
//
// Thread: the caller's. Errors: told on stderr, with what to do.

// `program`: a Python script, with or without its interpreter, and its arguments. Returns an exit status, and only
// where nothing was tried; otherwise this process becomes the one that tries.
int check_script(const std::vector<std::string>& program);

}  // namespace elastictrain::cli
