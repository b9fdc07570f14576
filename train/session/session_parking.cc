// A process that outlives its worker: it parks between two steps and continues in the program's loop as the next worker
// of its slot. The ranks of MPI do so, because MPI does not take a process in again.
#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {

// Call it at a boundary. Afterwards this is another worker with a seat, or outcome_ holds why there is none.
void Session::Impl::park() {
  has_left_ = false;
  close_worker();
  const auto next = plane_->park(progress_.committed_step);
  if (!next) {
    outcome_ = Outcome::kLeft;
    return;
  }
  begin_as(*next);
  take_first_seat();
}

// Ends everything that the exit of a process would end. A checkpoint that is being written reads memory that is about
// to change, and its journal notes are those of this worker.
void Session::Impl::close_worker() {
  promise_.reset();
  sender_.reset();
  receiver_.reset();
  if (checkpointer_) {
    checkpointer_->settle();
    tell_checkpoints();
  }
  tell_audits();
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  seat_ = {};
  if (store_) store_.reset();
}

// Restores the initial state of a new process. The program's settings and memory stay, and so does its view of the run
// until it has a seat again.
void Session::Impl::begin_as(WorkerId worker) {
  environment_.worker = worker;
  has_foreign_state_ = true;
  view_reason_.clear();
  shares_before_.clear();
  next_shares_.clear();
  averaged_until_ = 0;
  next_learning_rate_.reset();
  received_.reset();
  resumed_step_.reset();
  earlier_checkpoints_ = false;
  lane_input_ = {};
  lane_output_ = {};
  pending_norms_.reset();
  clock_ = {};
  monitors_.emplace();
  noise_scale_ = {};
  last_times_ = {};
  gradient_variance_ = 0;
  asked_ = {};
  swap_gap_ = {};
  audit_log_.emplace();
  replica_is_whole_ = receives_beside_ = keeps_replica_ = false;
  if (stores_) open_store();
  open_checkpointer();
  announce();
}

}  // namespace elastictrain
