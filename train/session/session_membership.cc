// How a launched worker gets into a generation, from one to the next, and out. The rest of the loop is in
// session_impl.cc and knows nothing of plans.
#include <algorithm>
#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

constexpr std::chrono::milliseconds kPatience{100};
constexpr std::chrono::seconds kEndAfterLostPromise{10};
constexpr std::chrono::seconds kFlushAtEnd{3};

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

bool Session::Impl::start_launched() {
  buffers_.populate();
  const Status announced = plane_->announce({.state_bytes = buffers_.total_bytes(),
                                             .state_layout_hash = buffers_.layout_hash(),
                                             .sample_count = data_.sample_count});
  if (!announced) fail(announced.error().message);
  auto give_up = session::Clock::time_point::max();
  while (session::Clock::now() < give_up) {
    switch (plane_->wait_for_seat(kPatience)) {
      case session::ControlPlane::Wake::kDismissed:
        return end_before_start(Outcome::kLeft);
      case session::ControlPlane::Wake::kOrphaned:
        return end_before_start(Outcome::kStopped);
      case session::ControlPlane::Wake::kNothing:
        continue;
      case session::ControlPlane::Wake::kSeat:
        break;
    }
    auto upcoming = plane_->take(0);
    if (!upcoming) continue;
    if (session::joiner_ranks(upcoming->plan).empty()) return begin_first_generation(std::move(*upcoming));
    if (join(std::move(*upcoming))) return true;
    give_up = session::Clock::now() + kEndAfterLostPromise;
  }
  fail("the workers that were to hand over the state ended before they did; start this worker again");
}

bool Session::Impl::end_before_start(Outcome outcome) {
  outcome_ = outcome;
  return false;
}

bool Session::Impl::begin_first_generation(session::Upcoming upcoming) {
  const auto& plan = upcoming.plan;
  progress_.learning_rate = {.from = plan.learning_rate_factor, .to = plan.learning_rate_factor};
  seat_ = session::seat_of(plan, *upcoming.rank, std::move(upcoming.build.communicator));
  step_log_.event("pg", seat_.rank, world_size(), seat_.generation);
  resume_from_checkpoint();
  replicate_from_first_rank();
  monitors_.seated(seat_.generation, progress_.committed_step);
  plane_->send(protocol::WorkerActive{plan.generation, progress_.committed_step + 1, 0});
  step_log_.event("ready", seat_.rank, world_size(), seat_.generation);
  call_on_change(0, true, plan.reason);
  return true;
}

void Session::Impl::replicate_from_first_rank() {
  auto& communicator = *seat_.communicator;
  const auto send = [&](void* data, std::size_t bytes, const std::string& what) {
    const Status status = communicator.broadcast({static_cast<std::byte*>(data), bytes}, 0);
    if (status) return;
    fail("the first broadcast (" + what + ") of generation " + std::to_string(seat_.generation) +
         " failed: " + status.error().message);
  };
  auto bytes = state::encode_header(header());
  std::uint64_t length = bytes.size();
  send(&length, sizeof length, "length");
  if (length > state::kMaxHeaderBytes) fail("rank 0 sends a header that is too long to be true");
  bytes.resize(length);
  send(bytes.data(), bytes.size(), "header");
  const auto first = state::decode_header(bytes);
  if (!first) fail(first.error().message);
  if (first->layout_hash != buffers_.layout_hash() || first->sample_count != data_.sample_count) {
    fail(
        "rank 0 shares state of another layout or has another number of samples; run the same program with the same "
        "options everywhere");
  }
  progress_ = first->progress;
  for (const auto& buffer : buffers_.buffers()) send(buffer.data, buffer.bytes, "state \"" + buffer.name + "\"");
}

bool Session::Impl::join(session::Upcoming upcoming) {
  const auto& plan = upcoming.plan;
  const auto generation = plan.generation;
  receiver_ =
      std::make_unique<session::StateReceiver>(in_donor_order(std::move(upcoming.build.state_sockets), plan),
                                               generation, data_.sample_count, buffers_, session::time_limit(plan));
  step_log_.event("pg", *upcoming.rank, static_cast<std::uint32_t>(plan.members.size()), generation);
  while (true) {
    const auto header = receiver_->wait_header(kPatience);
    if (header && !*header && header->error().code == ErrorCode::kInvalid) fail(header->error().message);
    if ((header && !*header) || plane_->dismissed() || plane_->orphaned()) {
      receiver_.reset();
      return false;
    }
    if (!header) continue;
    progress_ = (**header).progress;
    break;
  }
  seat_ = session::seat_of(plan, *upcoming.rank, std::move(upcoming.build.communicator));
  monitors_.seated(generation, progress_.committed_step);
  step_log_.event("ready", seat_.rank, world_size(), generation);
  call_on_change(0, true, plan.reason);
  return true;
}

void Session::Impl::change_membership() {
  auto upcoming = plane_->take(seat_.generation);
  if (!upcoming) fail("internal error: everyone agreed on a swap that is not there");
  if (!upcoming->rank) return leave(upcoming->plan);
  take_seat(std::move(*upcoming));
}

void Session::Impl::leave(const protocol::GenerationPlan& plan) {
  if (plan.members.empty()) checkpoint();
  outcome_ = plan.members.empty() ? Outcome::kStopped : Outcome::kLeft;
  tell_swap(swap_gap_.take_early());
  if (auto records = audit_log_.take()) plane_->send(std::move(*records));
  plane_->send(protocol::WorkerLeft{plan.generation, progress_.committed_step});
}

void Session::Impl::take_seat(session::Upcoming upcoming) {
  const auto& plan = upcoming.plan;
  const auto previous_world = world_size();
  tell_swap(swap_gap_.take_early());
  old_communicator_ = std::move(seat_.communicator);
  seat_ = session::seat_of(plan, *upcoming.rank, std::move(upcoming.build.communicator));
  progress_.learning_rate.retarget(plan.learning_rate_factor, plan.learning_rate_ramp_steps);
  send_state(plan, std::move(upcoming.build.state_sockets));
  monitors_.seated(seat_.generation, progress_.committed_step);
  swap_gap_.swapped(seat_.generation);
  call_on_change(previous_world, false, plan.reason);
}

void Session::Impl::send_state(const protocol::GenerationPlan& plan, std::vector<comm::StateSocket> joiners) {
  protocol::WorkerActive active{plan.generation, progress_.committed_step + 1, 0};
  std::erase_if(joiners, [](const comm::StateSocket& socket) { return socket.receives; });
  const auto donor = std::find(plan.donors.begin(), plan.donors.end(), environment_.worker);
  if (donor != plan.donors.end() && !joiners.empty()) {
    auto mine = header();
    const auto slice = state::slice_of(buffers_.total_bytes(), static_cast<std::uint32_t>(donor - plan.donors.begin()),
                                       static_cast<std::uint32_t>(plan.donors.size()));
    mine.slice_offset = slice.offset;
    mine.slice_length = slice.length;
    active.state_transfer_bytes = slice.length * joiners.size();
    sender_ = std::make_unique<session::StateSender>(std::move(joiners), mine, buffers_, session::time_limit(plan));
  }
  plane_->send(active);
}

state::TransferHeader Session::Impl::header() const {
  return {.generation = seat_.generation,
          .layout_hash = buffers_.layout_hash(),
          .total_bytes = buffers_.total_bytes(),
          .sample_count = data_.sample_count,
          .progress = progress_};
}

void Session::Impl::finish_transfers() {
  if (sender_) {
    const Status status = std::exchange(sender_, nullptr)->wait();
    if (!status) plane_->send(protocol::WorkerNote{"state_transfer", status.error().message});
  }
  if (receiver_) {
    const Status status = std::exchange(receiver_, nullptr)->wait();
    if (!status) fail("this worker did not get the state: " + status.error().message);
    plane_->send(protocol::WorkerActive{seat_.generation, progress_.committed_step + 1, buffers_.total_bytes()});
  }
}

void Session::Impl::tell_swap(const std::optional<protocol::WorkerSwap>& swap) {
  if (swap) plane_->send(*swap);
}

std::vector<protocol::WorkerUp> Session::Impl::heartbeat_messages() {
  std::vector<protocol::WorkerUp> messages{monitors_.heartbeat()};
  if (auto records = audit_log_.take()) messages.emplace_back(std::move(*records));
  return messages;
}

void Session::Impl::end_session(bool program_is_done) {
  ended_ = true;
  const bool in_the_middle = step_.has_value();
  if (seat_.communicator && (in_the_middle || !program_is_done)) seat_.communicator->abort();
  reducer_.reset();
  if (program_is_done && sender_) (void)sender_->wait();
  sender_.reset();
  receiver_.reset();
  if (plane_) {
    tell_swap(swap_gap_.take_early());
    if (auto records = audit_log_.take()) plane_->send(std::move(*records));
    const bool was_member =
        started_ && seat_.communicator && outcome_ != Outcome::kLeft && outcome_ != Outcome::kStopped;
    if (program_is_done && was_member) plane_->send(protocol::WorkerFinished{progress_.committed_step});
    plane_->close(kFlushAtEnd);
  }
  seat_.communicator.reset();
  old_communicator_.reset();
}

}  // namespace elastictrain
