// Training with replicas that differ: each step's exchange of models in place of the gradients' all-reduce, how all
// replicas become equal again, and which replica a worker continues with after a loss.
#include <algorithm>
#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {

// A program that shares no model, or trains on devices, averages gradients, whatever was requested. It does so on all
// workers.
bool Session::Impl::averages() const {
  return !device_ && seat_.synchronization != protocol::Synchronization::kGradients && exchange_.has_model();
}

// After the committed step. It is replicated, so that all workers know it of each other.
bool Session::Impl::replicas_differ() const {
  return averaged_until_ != 0 && averaged_until_ == progress_.committed_step;
}

// Whether this worker has a replica that no other worker has, or is about to finish a step that makes it one.
bool Session::Impl::has_own_replica() const {
  return replica_is_whole_ && (step_ ? step_->averages : replicas_differ());
}

// The gradient stays as it is: the mean over this worker's samples.
Status Session::Impl::take_local_gradient(session::Bucket& bucket) {
  if (!step_->lane_sent) {
    if (auto status = exchange_models(); !status) return status;
  }
  if (step_->my_count == 0) {
    std::fill_n(bucket.data, bucket.count, 0.0F);
  } else if (bucket.copied) {
    std::ranges::copy(bucket.copy, bucket.data);
  }
  return {};
}

Status Session::Impl::exchange_models() {
  step_->lane_sent = true;
  return in_collective("exchange of models", [&] {
    const bool contributes = !receiver_ || keeps_replica_;
    if (seat_.synchronization == protocol::Synchronization::kPairAveraging) return swap_models(contributes);
    Status status = exchange_.average(*seat_.communicator, fill_lane(), contributes);
    if (status) exchange_.keep_correction(seat_.averaging_weight);
    return status;
  });
}

// The lane goes last: no worker has it before every pair is done, so a swap that failed anywhere counts nowhere.
Status Session::Impl::swap_models(bool contributes) {
  if (!seat_.reach) {
    if (auto status = learn_reach(); !status) return status;
  }
  const std::uint32_t partner = session::match_pairs(*seat_.reach, progress_.committed_step + 1)[seat_.rank];
  if (partner != seat_.rank) {
    if (auto status = exchange_.swap(*seat_.communicator, partner, contributes); !status) return status;
    exchange_.keep_correction(0.5F);
  }
  comm::ReduceOptions options;
  options.lane = fill_lane();
  return seat_.communicator->all_reduce({}, options);
}

Status Session::Impl::learn_reach() {
  auto& communicator = *seat_.communicator;
  const std::uint32_t size = communicator.world_size();
  std::vector<std::byte> mine(session::Reach::row_bytes(size));
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (communicator.reaches(peer)) mine[peer / 8] |= std::byte{1} << (peer % 8);
  }
  std::vector<std::byte> all(mine.size() * size);
  if (auto status = communicator.all_gather(mine, all); !status) return status;
  seat_.reach.emplace(all, size);
  return {};
}

// For the first step in which gradients are averaged again: runs with its first all-reduce, on whichever thread. The
// program may still be reading its model, so it is adopted where the training thread waits.
Status Session::Impl::gather_equal_state() {
  Status status = in_collective("making all replicas equal", [&] {
    return exchange_.gather_equal_state(*seat_.communicator, seat_.first_holder, !receiver_ || keeps_replica_);
  });
  step_->has_equal_state = status.ok();
  return status;
}

void Session::Impl::adopt_equal_state() {
  if (std::exchange(step_->has_equal_state, false)) exchange_.adopt();
}

// At the end of the data every worker ends with the average of all models.
Status Session::Impl::end_with_equal_replicas() {
  await_checkpoint_copy();
  Status status = in_collective("averaging the models at the end", [&] {
    return exchange_.gather_equal_state(*seat_.communicator, seat_.first_holder, true);
  });
  if (!status) return status;
  exchange_.adopt();
  plane_->step_committed(progress_.committed_step, false);  // again outside of a step
  return {};
}

state::StateBuffers& Session::Impl::receive_beside_replica() {
  beside_ = buffers_.shadow(beside_memory_);
  return beside_;
}

void Session::Impl::take_received_replica() {
  if (receives_beside_ && !keeps_replica_) buffers_.copy_from(beside_);
  beside_ = {};
  beside_memory_ = {};
}

}  // namespace elastictrain
