// Purpose: objects of the program and its process, whichever worker the process is: its settings, its memory, its
// device, and the figures that it reads. Everything that belongs to one worker is in worker.h.
//
// Ownership: the session; the program owns the memory that the buffers name. Thread: the training thread. Components
// get references to the parts that they need, not to the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>

#include "elastictrain/session.hpp"
#include "train/session/access_port.h"
#include "train/session/auxiliary_state.h"
#include "train/session/device_access.h"
#include "train/session/environment.h"
#include "train/session/model_exchange.h"
#include "train/session/step_log.h"
#include "train/session/step_memory.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

// What the program sees of its worker: constant from one boundary to the next.
struct ProgramView {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  Generation generation = 0;
  StepReport last_step;
};

struct Program {
  Environment environment;  // `worker` is the first worker of this process
  DataOptions data;
  std::list<AccessPort> ports;  // to state of `buffers`
  state::StateBuffers buffers;
  EarlyValues early;
  Attachments attachments;
  ForwardState forward;
  FirstState first;
  LocalState local;
  std::set<std::string, std::less<>> copied;  // names of the state of `forward` and `first`, which stays where it is
  ModelExchange models;
  std::unique_ptr<DeviceSide> device;  // null: the program trains in host memory
  InputCopies copies;                  // of the open step's buckets
  StepMemory memory;
  StepLog log;
  std::function<void(const Change&)> on_change;
  std::function<void(OtherLayout&)> on_other_layout;
  std::string division;  // the end of the names of early values that say how the state is divided
  std::function<void(const Batch&)> before_step;
  std::function<void(const StepReport&)> after_step;
  std::uint64_t steps_opened = 0;    // by this process, whichever worker it was
  std::uint64_t variance_every = 0;  // steps; 0: never
  // Its workers must meet in every step: they exchange data of their own, or look ahead.
  bool keeps_step = false;
  bool uses_extension = false;  // see extension.h
  ProgramView view;
};

}  // namespace elastictrain::session
