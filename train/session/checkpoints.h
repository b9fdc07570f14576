// Purpose: this worker's checkpoints: when it saves its state, what it starts from, and which of them count.
// train/checkpoint writes them.
//
// Ownership: the worker. Thread: the training thread; the checkpointer has one of its own. Failure: a checkpoint that
// cannot be written is reported and training continues; one that cannot be read ends the session.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/checkpoint/checkpointer.h"
#include "train/session/audit.h"
#include "train/session/auxiliary_state.h"
#include "train/session/environment.h"
#include "train/session/generation.h"
#include "train/session/lifecycle.h"
#include "train/session/run_progress.h"
#include "train/session/supervisor_messages.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

class Checkpoints {
 public:
  struct Parts {
    const Environment& environment;
    const state::StateBuffers& buffers;
    const std::function<void(OtherLayout&)>& on_other_layout;
    const std::string& division;
    ControlPlane* plane;  // null without a launcher
    const Assignment& assignment;
    RunProgress& run_progress;
    EarlyValues& early;
    Attachments& attachments;
    Audits& audits;
    const Reports& reports;
    Lifecycle& lifecycle;
  };
  explicit Checkpoints(const Parts& parts) : parts_(parts) {}

  // Does nothing without a directory.
  void open();
  bool is_open() const { return checkpointer_ != nullptr; }
  // For rank 0 of a first generation and a worker without a launcher: continues from the newest checkpoint, or starts
  // without touching existing ones.
  void resume();
  // This worker has read the checkpoint of the committed step, which therefore exists.
  bool is_resumed_here() const { return resumed_step_ == parts_.run_progress.committed_step(); }
  // It counts samples in other units than this program.
  bool is_counted_anew() const { return is_counted_anew_; }
  // An assignment is taken: its first step follows the committed one. `announce`: the first rank fences out workers
  // that were cut off.
  void enter(const std::vector<protocol::Fence>& lineage, bool announce);
  // The same of a first generation. The fence is there before the first step: while nobody else knows where this
  // generation has begun, a start after its loss would take newer checkpoints of workers that were cut off, and forget
  // steps that were committed.
  void enter_first(const std::vector<protocol::Fence>& lineage);

  // Whether one is due once the commit has advanced by this number of steps, to this one.
  bool is_due(Step committed, Step steps) const;
  void step_committed(Step steps);  // writes one if it is due
  void begin_by_first_rank();       // also if none is due; training does not wait for it
  void write_by_first_rank();
  void write();       // the last one: training waits for it
  void await_copy();  // call it before the state changes
  // Waits for the write in progress. A directory can be opened again.
  void close();

 private:
  void begin_beyond(Generation newest_generation);
  void start_unrelated(const checkpoint::Store& store);
  checkpoint::Adapter adapter() const;
  bool is_divided_otherwise(const checkpoint::Manifest& manifest) const;
  Status take_other(checkpoint::Manifest& manifest, std::string_view header, std::span<const std::byte> data) const;
  checkpoint::Snapshot snapshot();
  void report_notes();

  void begin();

  const Parts parts_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;  // null without a directory
  std::optional<Step> resumed_step_;                        // of the checkpoint that this worker started from
  Step unattached_ = 0;                                     // the last one whose checkpoint lacks attachments
  bool is_counted_anew_ = false;
  std::optional<Step> begun_step_;  // of the newest one begun here, or by the first rank
  bool earlier_exist_ = false;      // when this worker started
};

}  // namespace elastictrain::session
