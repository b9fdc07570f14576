// Purpose: the built-in trainer (`elastictrain worker`): a real model on real data, on the public session API only,
// with the replica that its options ask for.
#pragma once

#include <elastictrain/session.hpp>
#include <memory>

#include "supervisor/protocol/result.h"
#include "train/builtin/model.h"
#include "train/builtin/options.h"
#include "train/builtin/replica.h"

// The replica that the options and this machine ask for, in host memory or on a GPU. See replica.h for
// ownership, thread and failure.

namespace elastictrain::train {

// Registers all state that an update changes with the session, which must not be started yet.
Result<std::unique_ptr<Replica>> make_replica(const TrainerOptions& options, Model& model, Session& session);

// The built-in trainer (`elastictrain worker`): a real model on real data, on the public session API only.
//
// Thread: the calling thread trains. The call returns when training is finished, this worker has left, or the run was
// stopped. Output: plain lines on standard output (rank 0: loss and accuracy per epoch); errors on standard error.
// Failure: the return value is the exit status of the process: 0 done, left or stopped; 64 conflicting options; 65 bad
// data; 66 a file that cannot be read; 70 the session or the device failed.

int run_trainer(const TrainerOptions& options);

}  // namespace elastictrain::train
