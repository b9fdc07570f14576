// How training ends: all workers pass the end of the data together, a process parks when its worker has left, and the
// session ends.
#include <cstdio>
#include <utility>

#include "train/comm/nccl/nccl_comm.h"
#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

constexpr std::chrono::seconds kFlushAtEnd{3};
constexpr std::chrono::hours kCollectiveAfterTheEnd{1};  // the supervisor looks after no worker that has finished
constexpr std::chrono::seconds kNcclAtEnd{3};            // for communicators that close in the background

}  // namespace

void Session::Impl::rejoin() {
  worker_->recovery.rejoin();
  if (lifecycle_.parks) park();
}

void Session::end_data() {
  impl_->require(impl_->lifecycle_.started, "end_data() before start(); a run without data needs no start()");
  impl_->worker_->lane.end_data();
}

// No worker leaves before all have the complete state: a worker that is behind may need any of the others as a donor.
void Session::Impl::finish_training() {
  while (lifecycle_.is_running() && worker_->run_progress.data_is_used_up()) {
    const Status status = finish_together();
    if (status) {
      lifecycle_.finish_reported = plane_ != nullptr;
      if (plane_) report_finished();
      lifecycle_.outcome = Outcome::kFinished;
      worker_->exchange.assignment().communicator->limit_operations(kCollectiveAfterTheEnd);
    } else if (!worker_->recovery.take_assignment()) {
      rejoin();
    }
  }
}

void Session::Impl::report_finished() {
  report_last_step();
  plane_->finished();
}

void Session::Impl::report_last_step() {
  plane_->send_in_turn([this] { return worker_->measurements.last_heartbeat(); });
}

Status Session::Impl::finish_together() {
  auto& worker = *worker_;
  if (auto status = worker.handover.finish(); !status) return status;
  if (worker.run_progress.replicas_differ()) {
    if (auto status = equalize_replicas(); !status) return status;
  }
  if (auto status = gather_local_state(); !status) return status;
  worker.checkpoints.write_by_first_rank();
  return plane_ ? last_barrier() : Status();
}

Status Session::Impl::gather_local_state() {
  if (program_.local.is_empty() || !worker_->checkpoints.is_open()) return {};
  program_.local.take();
  const auto& assignment = worker_->exchange.assignment();
  if (auto status = worker_->gate.run("local state", [&] { return program_.local.gather(*assignment.communicator); });
      !status) {
    return status;
  }
  commit_local_state(false);
  return {};
}

void Session::Impl::commit_local_state(bool in_step) {
  if (program_.local.commit(program_.early, in_step)) return;
  worker_->reports.tell("local_state",
                        "the local states of all ranks are too large together, so this checkpoint has those "
                        "of an earlier step, if any; share less with share_local_state()");
}

Status Session::Impl::equalize_replicas() {
  auto& worker = *worker_;
  worker.checkpoints.await_copy();
  if (auto status = worker.averaging.equalize(); !status) return status;
  program_.forward.adopt();
  program_.first.adopt();
  plane_->step_committed(worker.run_progress.committed_step(), false);  // again outside of a step
  return {};
}

Status Session::Impl::last_barrier() {
  if (!plane_->enter_collective()) return Error{ErrorCode::kAborted, "this worker is halted"};
  const Status status = worker_->exchange.assignment().communicator->barrier();
  if (!status) plane_->collective_failed("the barrier at the end of the data failed: " + status.error().message);
  return status;
}

// Call it at a boundary. Afterwards this is another worker with an assignment, or the lifecycle holds why there is
// none.
void Session::Impl::park() {
  lifecycle_.parks = false;
  worker_->close();
  const auto next = plane_->park(worker_->run_progress.committed_step());
  if (!next) {
    lifecycle_.outcome = Outcome::kLeft;
    return;
  }
  become(*next);
  worker_->generation_change.take_first_assignment();
}

// Like a new process, with the program's settings and memory. Its view of the run stays until it has an assignment
// again.
void Session::Impl::become(WorkerId worker) {
  const auto seen = worker_->run_progress.progress();
  worker_.emplace(program_, lifecycle_, plane_.get(), worker, true);
  worker_->run_progress.adopt(seen);
  worker_->extension->begin();
  worker_->checkpoints.open();
  worker_->generation_change.announce();
}

void Session::Impl::end_session(bool program_is_done) {
  lifecycle_.ended = true;
  if (lifecycle_.parks) lifecycle_.outcome = Outcome::kLeft;
  auto& worker = *worker_;
  const bool in_the_middle = worker.runner.is_open();
  const auto& communicator = worker.exchange.assignment().communicator;
  if (communicator && (in_the_middle || !program_is_done)) communicator->abort();
  worker.keyed.close();
  worker.runner.stop_background();
  if (program_is_done) worker.handover.finish_sending();
  worker.handover.drop();
  worker.checkpoints.close();
  if (plane_) end_link(program_is_done, in_the_middle);
  local_board_.close();
  worker.exchange.close();
  if (program_.device) comm::await_nccl_ends(kNcclAtEnd);
}

void Session::Impl::end_link(bool program_is_done, bool in_the_middle) {
  auto& worker = *worker_;
  worker.measurements.report_swap_early();
  worker.audits.report();
  worker.notes.close();
  const bool stays = lifecycle_.outcome != Outcome::kLeft && lifecycle_.outcome != Outcome::kStopped;
  const bool was_member = lifecycle_.started && worker.exchange.assignment().communicator && stays;
  if (was_member && !lifecycle_.finish_reported) {  // one that has left or finished has said it
    if (!in_the_middle) report_last_step();
    if (program_is_done) plane_->send(protocol::WorkerFinished{worker.run_progress.committed_step(), true});
  }
  if (program_is_done && !in_the_middle) leave_mpi();
  plane_->close(kFlushAtEnd);
}

void Session::Impl::leave_mpi() {
  const Status left = plane_->leave_mpi();
  if (left || left.error().code == ErrorCode::kPeerLost) return;
  std::fprintf(stderr, "elastictrain: this worker ends without MPI_Finalize: %s\n", left.error().message.c_str());
}

}  // namespace elastictrain
