#include "train/session/state_handover.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/state_transfer.h"

namespace elastictrain::session {

const state::StateBuffers& Replicas::begin_receiving(bool may_keep_own) {
  ET_CHECK(is_whole_ || !may_keep_own, "only a complete replica may count besides the donors'");
  receives_shadow_ = is_whole_ = may_keep_own;
  if (!receives_shadow_) return buffers_;
  shadow_ = buffers_.shadow(shadow_memory_);
  return shadow_;
}

void Replicas::received() {
  if (receives_shadow_ && !keeps_own_) buffers_.copy_from(shadow_);
  shadow_ = {};
  shadow_memory_ = {};
  keeps_own_ = false;
  is_whole_ = true;
}

namespace {

Status broadcast_bytes(const Assignment& assignment, void* data, std::size_t bytes, const std::string& what) {
  const Status status = assignment.communicator->broadcast({static_cast<std::byte*>(data), bytes}, 0);
  if (status) return {};
  return Error{status.error().code, "the first broadcast (" + what + ") of generation " +
                                        std::to_string(assignment.generation) + " failed: " + status.error().message};
}

// Through host memory, where the buffer is in a device's.
Status broadcast_buffer(const Assignment& assignment, const state::Buffer& buffer, state::HostView& view) {
  const state::Piece piece{buffer.data, buffer.bytes, buffer.port};
  const auto memory = view.to_fill(piece);
  const bool sends = assignment.rank == 0;
  Status copied = sends ? piece.read(memory) : Status();
  if (copied) {
    const auto sent = broadcast_bytes(assignment, memory.data(), memory.size(), "state \"" + buffer.name + "\"");
    if (!sent) return sent;
    if (!sends) copied = view.written(piece, piece.bytes);
  }
  if (copied) return {};
  return Error{ErrorCode::kInvalid, copied.error().message};
}

}  // namespace

Result<state::TransferHeader> broadcast_header(const Assignment& assignment, const state::TransferHeader& mine) {
  auto bytes = state::encode_header(mine);
  std::uint64_t length = bytes.size();
  if (auto status = broadcast_bytes(assignment, &length, sizeof length, "length"); !status) return status.error();
  if (length > state::kMaxHeaderBytes) {
    return Error{ErrorCode::kInvalid, "rank 0 sent a malformed header: its length is out of range"};
  }
  bytes.resize(length);
  if (auto status = broadcast_bytes(assignment, bytes.data(), bytes.size(), "header"); !status) return status.error();
  auto first = state::decode_header(bytes);
  if (!first) return first.error();
  if (first->layout_hash != mine.layout_hash || first->sample_count != mine.sample_count) {
    return Error{ErrorCode::kInvalid,
                 "rank 0 has a different state layout or number of samples; run the same program with "
                 "the same options everywhere"};
  }
  return first;
}

Result<std::vector<std::string>> broadcast_state(const Assignment& assignment, const state::StateBuffers& buffers,
                                                 bool compares) {
  state::HostView view;
  std::vector<std::string> replaced;
  for (const auto& buffer : buffers.buffers()) {
    const bool looks = compares && buffer.port == nullptr;
    const auto before = looks ? state::hash_bytes(buffer.data, buffer.bytes, 0) : 0;
    if (auto status = broadcast_buffer(assignment, buffer, view); !status) return status.error();
    if (looks && state::hash_bytes(buffer.data, buffer.bytes, 0) != before) replaced.push_back(buffer.name);
  }
  return replaced;
}

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
  state::TransferHeader header{.generation = parts_.assignment.generation,
                               .layout_hash = parts_.buffers.layout_hash(),
                               .total_bytes = parts_.buffers.total_bytes()};
  parts_.run_progress.put_into(header);
  parts_.early.put_into(header);
  return header;
}

void StateHandover::send(TakenAssignment& taken) {
  protocol::WorkerActive active{taken.plan.generation, parts_.run_progress.next_step(), 0};
  active.state_transfer_bytes = start_sending(taken);
  plan_device_transfers(taken.plan);
  parts_.plane->send(active);
}

// Returns the number of bytes that this worker sends.
std::uint64_t StateHandover::start_sending(TakenAssignment& taken) {
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
      in_donor_order(std::move(promise.sockets), plan), plan.generation, parts_.run_progress.sample_count(), buffers,
      time_limit(plan), std::move(promise.cancel), [plane = parts_.plane] { plane->wake(); }, device_state());
  if (!await_header() || !accept(**receiver_->header(), promise.may_keep_replica)) {
    receiver_.reset();
    return std::nullopt;
  }
  plan_device_transfers(plan);
  return **receiver_->header();
}

bool StateHandover::await_header() {
  if (!parts_.plane->wait_on_assignment([this] { return receiver_->header().has_value(); })) return false;
  const auto header = *receiver_->header();
  if (header) return true;
  if (header.error().code == ErrorCode::kInvalid) {
    receiver_.reset();
    parts_.lifecycle.fail(header.error().message);
  }
  parts_.plane->collective_failed("the donors' header did not arrive: " + header.error().message);
  return false;
}

// Enters the loop, unless the assignment is void by now.
bool StateHandover::accept(const state::TransferHeader& header, bool may_keep_replica) {
  const Step donors_at = header.progress.committed_step;
  const bool keeps =
      may_keep_replica && header.replicas_differ() && donors_at <= parts_.run_progress.latest_next_step();
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
  parts_.plane->send(protocol::WorkerActive{parts_.assignment.generation, parts_.run_progress.next_step(),
                                            parts_.buffers.total_bytes()});
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
  device_transfers_ = device_transfers(parts_.buffers, plan, parts_.assignment.rank);
}

Status StateHandover::start_device_transfers() {
  const auto pieces = std::exchange(device_transfers_, std::nullopt);
  return parts_.gate.run("state transfer", [&] {
    return parts_.assignment.communicator->device_transfers()->start_device_transfers(*pieces,
                                                                                      parts_.device->state_mark());
  });
}

Status StateHandover::finish_device_transfers() {
  return parts_.gate.run("state transfer",
                         [&] { return parts_.assignment.communicator->device_transfers()->finish_device_transfers(); });
}

bool StateHandover::moves_on_devices() const {
  return parts_.device != nullptr && parts_.assignment.communicator->device_transfers() != nullptr;
}

DeviceState StateHandover::device_state() const {
  return moves_on_devices() ? DeviceState::kElsewhere : DeviceState::kThroughHost;
}

}  // namespace elastictrain::session
