// Purpose: `check --script`: trains a PyTorch script that changes nothing for some steps on this machine, and tries
// whether another process could take over from it, as a worker that joins a run does. The package elastictrain does it.
//
// Thread: the caller's. Errors: told on stderr, with what to do.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::cli {

// `program`: a Python script, with or without its interpreter, and its arguments. Returns an exit status, and only
// where nothing was tried; otherwise this process becomes the one that tries.
int check_script(const std::vector<std::string>& program);

}  // namespace elastictrain::cli
