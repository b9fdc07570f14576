#include "train/session/state_handover.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/device_transfer.h"

namespace elastictrain::session {
namespace {

// The receiving sockets in the order of the donors' slices.
std::vector<comm::StateSocket> in_donor_order(std::vector<comm::StateSocket> sockets,
                                              const protocol::GenerationPlan& plan) {
  std::vector<comm::StateSocket> ordered;
  for (const std::uint32_t rank : donor_ranks(plan)) {
    for (auto& socket : sockets) {
      if (socket.receives && socket.peer_rank == rank && socket.channel.valid()) ordered.push_back(std::move(socket));
    }
  }
  return ordered;
}

}  // namespace

state::TransferHeader StateHandover::header() const {
  state::TransferHeader header{.generation = parts_.seat.generation,
                               .layout_hash = parts_.buffers.layout_hash(),
                               .total_bytes = parts_.buffers.total_bytes()};
  parts_.course.put_into(header);
  parts_.early.put_into(header);
  return header;
}

void StateHandover::send(TakenSeat& taken) {
  protocol::WorkerActive active{taken.plan.generation, parts_.course.next_step(), 0};
  active.state_transfer_bytes = start_sending(taken);
  plan_device_transfers(taken.plan);
  parts_.plane->send(active);
}

// Returns the number of bytes that this worker sends.
std::uint64_t StateHandover::start_sending(TakenSeat& taken) {
  ET_CHECK(!sender_, "the last transfer to joiners has ended");
  const auto& donors = taken.plan.donors;
  auto& joiners = taken.state_sockets;
  std::erase_if(joiners, [](const comm::StateSocket& socket) { return socket.receives; });
  const auto donor = std::find(donors.begin(), donors.end(), parts_.self);
  if (donor == donors.end() || joiners.empty()) return 0;
  auto mine = header();
  const auto index = static_cast<std::uint32_t>(donor - donors.begin());
  const auto count = static_cast<std::uint32_t>(donors.size());
  const auto slice = state::slice_of_donor(mine.total_bytes, index, count, mine.replicas_differ());
  const auto compared = state::slice_to_compare(mine.total_bytes, index, count, mine.replicas_differ());
  mine.slice_offset = slice.offset;
  mine.slice_length = slice.length;
  const std::uint64_t bytes = slice.length * joiners.size();
  sender_ = std::make_unique<StateSender>(std::move(joiners), mine, compared, parts_.buffers, time_limit(taken.plan),
                                          taken.cancel, device_state());
  return bytes;
}

std::optional<state::TransferHeader> StateHandover::receive(PromisedState promise) {
  ET_CHECK(!receiver_, "no other state is arriving");
  const auto& plan = promise.plan;
  const auto& buffers = parts_.replicas.begin_receiving(promise.may_keep_replica);
  receiver_ = std::make_unique<StateReceiver>(
      in_donor_order(std::move(promise.sockets), plan), plan.generation, parts_.course.sample_count(), buffers,
      time_limit(plan), std::move(promise.cancel), [plane = parts_.plane] { plane->wake(); }, device_state());
  if (!await_header() || !accept(**receiver_->header(), promise.may_keep_replica)) {
    receiver_.reset();
    return std::nullopt;
  }
  plan_device_transfers(plan);
  return **receiver_->header();
}

bool StateHandover::await_header() {
  if (!parts_.plane->wait_on_seat([this] { return receiver_->header().has_value(); })) return false;
  const auto header = *receiver_->header();
  if (header) return true;
  if (header.error().code == ErrorCode::kInvalid) {
    receiver_.reset();
    parts_.lifecycle.fail(header.error().message);
  }
  parts_.plane->collective_failed("the donors' header did not arrive: " + header.error().message);
  return false;
}

// Enters the loop, unless the seat is void by now.
bool StateHandover::accept(const state::TransferHeader& header, bool may_keep_replica) {
  const Step donors_at = header.progress.committed_step;
  const bool keeps = may_keep_replica && header.replicas_differ() && donors_at <= parts_.course.latest_next_step();
  parts_.replicas.keep_own(keeps);
  return parts_.plane->enter_loop(donors_at, keeps);
}

Status StateHandover::finish() {
  if (sender_) {
    const Status status = sender_->wait();
    sender_.reset();
    if (!status) parts_.plane->send(protocol::WorkerNote{"state_transfer", status.error().message});
  }
  if (!receiver_) return {};
  Status status = receiver_->wait();
  receiver_.reset();
  if (status && moves_on_devices()) status = finish_device_transfers();
  if (status || parts_.replicas.keeps_own()) {
    received();
    return {};
  }
  if (status.error().code == ErrorCode::kInvalid) parts_.lifecycle.fail(status.error().message);
  parts_.plane->collective_failed("this worker did not get the state: " + status.error().message);
  return Error{ErrorCode::kPeerLost, status.error().message};
}

void StateHandover::received() {
  const bool keeps_own = parts_.replicas.keeps_own();
  parts_.replicas.received();
  if (!keeps_own) {
    parts_.forward.adopt();
    parts_.first.adopt();
  }
  parts_.plane->state_complete();
  parts_.audits.state_received();
  parts_.plane->send(
      protocol::WorkerActive{parts_.seat.generation, parts_.course.next_step(), parts_.buffers.total_bytes()});
}

void StateHandover::drop() {
  sender_.reset();
  receiver_.reset();
  device_transfers_.reset();
}

void StateHandover::finish_sending() {
  if (sender_) (void)sender_->wait();
}

void StateHandover::plan_device_transfers(const protocol::GenerationPlan& plan) {
  device_transfers_.reset();
  if (!moves_on_devices() || joiner_ranks(plan).empty()) return;
  device_transfers_ = device_transfers(parts_.buffers, plan, parts_.seat.rank);
}

Status StateHandover::start_device_transfers() {
  const auto pieces = std::exchange(device_transfers_, std::nullopt);
  return parts_.gate.run("state transfer", [&] {
    return parts_.seat.communicator->device_transfers()->start_device_transfers(*pieces, parts_.device->state_mark());
  });
}

Status StateHandover::finish_device_transfers() {
  return parts_.gate.run("state transfer",
                         [&] { return parts_.seat.communicator->device_transfers()->finish_device_transfers(); });
}

bool StateHandover::moves_on_devices() const {
  return parts_.device != nullptr && parts_.seat.communicator->device_transfers() != nullptr;
}

DeviceState StateHandover::device_state() const {
  return moves_on_devices() ? DeviceState::kElsewhere : DeviceState::kThroughHost;
}

}  // namespace elastictrain::session
