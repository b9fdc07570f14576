// How a launched worker enters a generation, moves from one to the next, and leaves. The rest of the loop is in
// session_impl.cc and does not know about plans.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "train/comm/device_interfaces.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

constexpr std::chrono::seconds kFlushAtEnd{3};
constexpr std::chrono::seconds kNcclAtEnd{3};  // for communicators that close in the background
constexpr std::size_t kStepsOfLeavers = 1024;  // more than the shortest steps between two heartbeats

// The receiving sockets in the order of the donors' slices.
std::vector<comm::StateSocket> in_donor_order(std::vector<comm::StateSocket> sockets,
                                              const protocol::GenerationPlan& plan) {
  std::vector<comm::StateSocket> ordered;
  for (const std::uint32_t rank : session::donor_ranks(plan)) {
    for (auto& socket : sockets) {
      if (socket.receives && socket.peer_rank == rank && socket.socket.valid()) ordered.push_back(std::move(socket));
    }
  }
  return ordered;
}

}  // namespace

void Session::Impl::announce() {
  const Status announced = plane_->announce({.state_bytes = buffers_.total_bytes(),
                                             .state_layout_hash = buffers_.layout_hash(),
                                             .sample_count = data_.sample_count});
  if (!announced) fail(announced.error().message);
}

bool Session::Impl::take_first_seat() {
  while (true) {
    auto taken = plane_->wait_seat();
    if (!taken) return end_before_seat(Outcome::kStopped);
    if (taken->kind == session::ControlPlane::SeatKind::kDismissed) return end_before_seat(Outcome::kLeft);
    const bool joins = !session::joiner_ranks(taken->plan).empty();
    if (joins ? join(std::move(*taken)) : begin_first_generation(std::move(*taken))) return true;
    plane_->retire(std::move(seat_.communicator));
    seat_ = {};
  }
}

bool Session::Impl::end_before_seat(Outcome outcome) {
  outcome_ = outcome;
  return false;
}

bool Session::Impl::begin_first_generation(session::TakenSeat taken) {
  const auto& plan = taken.plan;
  progress_ = {};
  averaged_until_ = 0;
  progress_.sampler.seed = data_.seed;
  progress_.learning_rate = {.from = plan.learning_rate_factor, .to = plan.learning_rate_factor};
  seat_ = session::seat_of(plan, *taken.rank, std::move(taken.communicator));
  next_shares_ = session::first_shares(plan);
  step_log_.event("pg", seat_.rank, seat_.world_size(), seat_.generation);
  resume_from_checkpoint();
  if (seat_.rank == 0 && has_foreign_state_ && progress_.committed_step == 0) {
    fail(
        "no worker or checkpoint is left of the run whose state this worker holds; start "
        "this worker again");
  }
  const Status replicated = replicate_from_first_rank();
  if (!replicated) {
    if (replicated.error().code == ErrorCode::kInvalid) fail(replicated.error().message);
    plane_->collective_failed(replicated.error().message);
    return false;
  }
  if (!plane_->enter_loop(progress_.committed_step, true)) return false;
  replica_is_whole_ = true;
  enter_lineage(plan.generation, progress_.committed_step + 1, plan.lineage, earlier_checkpoints_);
  if (progress_.committed_step > 0 && environment_.audit_every != 0) account_for_checkpoint();
  monitors_->seated(seat_.generation, progress_.committed_step);
  plane_->send(protocol::WorkerActive{plan.generation, progress_.committed_step + 1, 0});
  step_log_.event("ready", seat_.rank, seat_.world_size(), seat_.generation);
  publish_seat(true, plan.reason);
  return true;
}

// The worker that has read the checkpoint reports its content. The others report it if that worker is lost.
void Session::Impl::account_for_checkpoint() {
  if (resumed_step_ != progress_.committed_step) {
    received_ = Received{seat_.generation, progress_};
    return;
  }
  audit_log_->add_state(seat_.generation, progress_);
  tell_audits();
}

Status Session::Impl::replicate_from_first_rank() {
  auto& communicator = *seat_.communicator;
  const auto send = [&](void* data, std::size_t bytes, const std::string& what) -> Status {
    const Status status = communicator.broadcast({static_cast<std::byte*>(data), bytes}, 0);
    if (status) return {};
    return Error{status.error().code, "the first broadcast (" + what + ") of generation " +
                                          std::to_string(seat_.generation) + " failed: " + status.error().message};
  };
  auto bytes = state::encode_header(header());
  std::uint64_t length = bytes.size();
  if (auto status = send(&length, sizeof length, "length"); !status) return status;
  if (length > state::kMaxHeaderBytes) {
    return Error{ErrorCode::kInvalid, "rank 0 sent a malformed header: its length is out of range"};
  }
  bytes.resize(length);
  if (auto status = send(bytes.data(), bytes.size(), "header"); !status) return status;
  const auto first = state::decode_header(bytes);
  if (!first) return first.error();
  if (first->layout_hash != buffers_.layout_hash() || first->sample_count != data_.sample_count) {
    return Error{ErrorCode::kInvalid,
                 "rank 0 has a different state layout or number of samples; run the same program with "
                 "the same options everywhere"};
  }
  progress_ = first->progress;
  has_foreign_state_ = has_foreign_state_ || (seat_.rank != 0 && progress_.committed_step != 0);
  state::HostView view;
  for (const auto& buffer : buffers_.buffers()) {
    const state::Piece piece{buffer.data, buffer.bytes, buffer.port};
    const auto memory = view.to_fill(piece);
    Status copied = seat_.rank == 0 ? piece.read(memory) : Status();
    if (copied) {
      if (auto status = send(memory.data(), memory.size(), "state \"" + buffer.name + "\""); !status) return status;
      if (seat_.rank != 0) copied = view.written(piece, piece.bytes);
    }
    if (!copied) return Error{ErrorCode::kInvalid, copied.error().message};
  }
  return {};
}

bool Session::Impl::join(session::TakenSeat taken) {
  const auto plan = taken.plan;
  const auto rank = *taken.rank;
  step_log_.event("pg", rank, static_cast<std::uint32_t>(plan.members.size()), plan.generation);
  seat_ = session::seat_of(plan, rank, std::move(taken.communicator));
  if (!receive_header({plan, std::move(taken.state_sockets), std::move(taken.cancel)})) return false;
  step_log_.event("ready", seat_.rank, seat_.world_size(), plan.generation);
  publish_seat(true, plan.reason);
  return true;
}

// From this point on the state arrives while the program computes. False: the seat is void, and no state was promised.
bool Session::Impl::receive_header(Promise promise) {
  const auto& plan = promise.plan;
  await_checkpoint_copy();
  receives_beside_ = replica_is_whole_ = promise.may_keep_replica;
  receiver_ = std::make_unique<session::StateReceiver>(
      in_donor_order(std::move(promise.state_sockets), plan), plan.generation, data_.sample_count,
      receives_beside_ ? receive_beside_replica() : buffers_, session::time_limit(plan), std::move(promise.cancel),
      [plane = plane_.get()] { plane->wake(); }, device_state());
  if (!plane_->wait_on_seat([this] { return receiver_->header().has_value(); })) {
    receiver_.reset();
    return false;
  }
  const auto header = *receiver_->header();
  if (!header) {
    receiver_.reset();
    if (header.error().code == ErrorCode::kInvalid) fail(header.error().message);
    plane_->collective_failed("the donors' header did not arrive: " + header.error().message);
    return false;
  }
  const Step donors_at = header->progress.committed_step;
  keeps_replica_ = promise.may_keep_replica && header->replicas_differ() && donors_at <= progress_.committed_step + 1;
  if (!plane_->enter_loop(donors_at, keeps_replica_)) {
    receiver_.reset();
    return false;
  }
  start_device_transfers(plan);
  progress_ = header->progress;
  next_shares_ = header->next_shares;
  averaged_until_ = header->averaged_until;
  enter_lineage(plan.generation, progress_.committed_step + 1, plan.lineage, plan.fence != 0);
  if (plan.fence != 0) expect_learning_rate(plan);
  monitors_->seated(plan.generation, progress_.committed_step);
  return true;
}

void Session::Impl::expect_learning_rate(const protocol::GenerationPlan& plan) {
  next_learning_rate_ = {.to = plan.learning_rate_factor, .length_steps = plan.learning_rate_ramp_steps};
}

void Session::Impl::change_membership() {
  using Kind = session::ControlPlane::SeatKind;
  auto taken = plane_->take_agreed_seat();
  if (!taken) fail("internal error: all workers agreed on a swap that this worker does not have");
  const bool anyone_trains_on = !taken->plan.members.empty();
  if (anyone_trains_on) {
    // Runs also if an Abort has made the seat void: other workers have taken it, and all must hold the same numbers.
    next_shares_ = session::first_shares(taken->plan);
    progress_.learning_rate.retarget(taken->plan.learning_rate_factor, taken->plan.learning_rate_ramp_steps);
  }
  if (taken->is_void) return;
  if (taken->kind == Kind::kStop) checkpoint();
  if (taken->kind == Kind::kPlanned) {
    take_planned_seat(std::move(*taken));
  } else {
    leave(taken->plan, anyone_trains_on ? Outcome::kLeft : Outcome::kStopped);
    if (has_left_) park();
  }
}

void Session::Impl::leave(const protocol::GenerationPlan& plan, Outcome outcome) {
  has_left_ = outcome == Outcome::kLeft && environment_.parks;
  if (!has_left_) outcome_ = outcome;
  tell_swap(swap_gap_.take_early());
  tell_audits();
  plane_->send(protocol::WorkerLeft{plan.generation, progress_.committed_step});
}

void Session::Impl::take_planned_seat(session::TakenSeat taken) {
  tell_swap(swap_gap_.take_early());
  old_communicator_ = std::move(seat_.communicator);
  shares_before_ = std::exchange(seat_.shares, {});
  seat_ = session::seat_of(taken.plan, *taken.rank, std::move(taken.communicator));
  send_state(taken);
  enter_lineage(seat_.generation, progress_.committed_step + 1, taken.plan.lineage, false);
  tell_audits_of_leavers();
  monitors_->seated(seat_.generation, progress_.committed_step);
  swap_gap_.swapped(seat_.generation);
  publish_seat(false, taken.plan.reason);
}

// Includes what heartbeats have reported so far: a new joiner cannot report these steps if the others are lost, and a
// leaver may end with its host before its last messages are sent.
void Session::Impl::tell_audits_of_leavers() {
  if (environment_.audit_every == 0) return;
  for (const auto& share : shares_before_) {
    if (seat_.rank == 0 && !seat_.has(share.worker)) audit_log_->add_for(share.worker, kStepsOfLeavers);
  }
  tell_audits();
}

void Session::Impl::send_state(session::TakenSeat& taken) {
  const auto& plan = taken.plan;
  protocol::WorkerActive active{plan.generation, progress_.committed_step + 1, 0};
  auto& joiners = taken.state_sockets;
  std::erase_if(joiners, [](const comm::StateSocket& socket) { return socket.receives; });
  const auto donor = std::find(plan.donors.begin(), plan.donors.end(), environment_.worker);
  if (donor != plan.donors.end() && !joiners.empty()) {
    auto mine = header();
    const auto slice =
        state::slice_of_donor(buffers_.total_bytes(), static_cast<std::uint32_t>(donor - plan.donors.begin()),
                              static_cast<std::uint32_t>(plan.donors.size()), mine.replicas_differ());
    mine.slice_offset = slice.offset;
    mine.slice_length = slice.length;
    active.state_transfer_bytes = slice.length * joiners.size();
    sender_ = std::make_unique<session::StateSender>(std::move(joiners), mine, buffers_, session::time_limit(plan),
                                                     taken.cancel, device_state());
  }
  start_device_transfers(plan);
  plane_->send(active);
}

state::TransferHeader Session::Impl::header() const {
  return {.generation = seat_.generation,
          .layout_hash = buffers_.layout_hash(),
          .total_bytes = buffers_.total_bytes(),
          .sample_count = data_.sample_count,
          .progress = progress_,
          .next_shares = next_shares_,
          .averaged_until = averaged_until_};
}

Status Session::Impl::finish_transfers() {
  if (sender_) {
    const Status status = sender_->wait();
    sender_.reset();
    if (!status) plane_->send(protocol::WorkerNote{"state_transfer", status.error().message});
  }
  if (!receiver_) return {};
  Status status = receiver_->wait();
  receiver_.reset();
  if (auto* transfers = seat_.communicator->device_transfers(); status && transfers != nullptr) {
    status = transfers->finish_device_transfers();
  }
  if (status || keeps_replica_) {
    take_received_replica();
    keeps_replica_ = false;
    replica_is_whole_ = true;
    plane_->state_complete();
    if (environment_.audit_every != 0) received_ = Received{seat_.generation, progress_};
    plane_->send(protocol::WorkerActive{seat_.generation, progress_.committed_step + 1, buffers_.total_bytes()});
    return {};
  }
  plane_->collective_failed("this worker did not get the state: " + status.error().message);
  return Error{ErrorCode::kPeerLost, status.error().message};
}

void Session::Impl::tell_swap(const std::optional<protocol::WorkerSwap>& swap) {
  if (swap) plane_->send(*swap);
}

void Session::Impl::tell_audits() {
  if (!plane_) return;
  plane_->send_in_turn([this] { return waiting_audits(); });
}

std::vector<protocol::WorkerUp> Session::Impl::waiting_audits() {
  std::vector<protocol::WorkerUp> messages;
  for (auto& records : audit_log_->take()) messages.emplace_back(std::move(records));
  return messages;
}

std::vector<protocol::WorkerUp> Session::Impl::heartbeat_messages() {
  std::vector<protocol::WorkerUp> messages = waiting_audits();
  messages.insert(messages.begin(), monitors_->heartbeat());
  return messages;
}

void Session::Impl::end_session(bool program_is_done) {
  ended_ = true;
  if (has_left_) outcome_ = Outcome::kLeft;
  const bool in_the_middle = step_.has_value();
  if (seat_.communicator && (in_the_middle || !program_is_done)) seat_.communicator->abort();
  reducer_.reset();
  if (program_is_done && sender_) (void)sender_->wait();
  sender_.reset();
  receiver_.reset();
  if (checkpointer_) {
    checkpointer_->settle();
    tell_checkpoints();
    checkpointer_.reset();
  }
  if (plane_) {
    tell_swap(swap_gap_.take_early());
    tell_audits();
    const bool was_member =
        started_ && seat_.communicator && outcome_ != Outcome::kLeft && outcome_ != Outcome::kStopped;
    if (program_is_done && was_member && !finish_told_)
      plane_->send(protocol::WorkerFinished{progress_.committed_step});
    if (program_is_done && !in_the_middle) leave_mpi();
    plane_->close(kFlushAtEnd);
  }
  seat_.communicator.reset();
  old_communicator_.reset();
  if (device_) comm::await_nccl_ends(kNcclAtEnd);
}

void Session::Impl::leave_mpi() {
  const Status left = plane_->leave_mpi();
  if (left || left.error().code == ErrorCode::kPeerLost) return;
  std::fprintf(stderr, "elastictrain: this worker ends without MPI_Finalize: %s\n", left.error().message.c_str());
}

}  // namespace elastictrain
