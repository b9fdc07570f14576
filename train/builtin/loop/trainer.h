// Purpose: the built-in trainer (`elastictrain worker`): a real model on real data, on the public session API only.
//
// Thread: the calling thread trains. The call returns when training is finished, this worker has left, or the run was
// stopped. Output: plain lines on standard output (rank 0: loss and accuracy per epoch); errors on standard error.
// Failure: the return value is the exit status of the process: 0 done, left or stopped; 64 conflicting options; 65 bad
// data; 66 a file that cannot be read; 70 the session or the device failed.
#pragma once

#include "train/builtin/options.h"

namespace elastictrain::train {

int run_trainer(const TrainerOptions& options);

}  // namespace elastictrain::train
