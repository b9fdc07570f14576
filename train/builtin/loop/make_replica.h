// Purpose: the replica that the options and this machine ask for, in host memory or on a GPU. See replica.h for
// ownership, thread and failure.
#pragma once

#include <elastictrain/session.hpp>
#include <memory>

#include "supervisor/protocol/result.h"
#include "train/builtin/model.h"
#include "train/builtin/options.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {

// Registers all state that an update changes with the session, which must not be started yet.
Result<std::unique_ptr<Replica>> make_replica(const TrainerOptions& options, Model& model, Session& session);

}  // namespace elastictrain::train
