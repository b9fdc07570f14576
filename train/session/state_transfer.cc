#include "train/session/state_transfer.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "train/session/control_plane.h"
#include "train/session/process_signals.h"
#include "train/state/progress.h"

namespace elastictrain::session {
namespace {

constexpr std::uint64_t kComparedBytes = 1U << 20;  // of a piece, at most

// Calls visit(piece) until it returns false.
template <typename Visit>
void each_piece(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state, const Visit& visit) {
  const std::uint64_t end = slice.offset + slice.length;
  for (std::uint64_t offset = slice.offset; offset < end;) {
    const auto piece = buffers.piece(offset, std::min(kComparedBytes, end - offset));
    const bool is_here = piece.port == nullptr || device_state == DeviceState::kThroughHost;
    if (is_here && !visit(piece, offset)) return;
    offset += piece.bytes;
  }
}

}  // namespace

Result<std::vector<std::uint64_t>> piece_hashes(const state::StateBuffers& buffers, state::Slice slice,
                                                DeviceState device_state) {
  std::vector<std::uint64_t> hashes;
  Status failure;
  state::HostView view;
  each_piece(buffers, slice, device_state, [&](const state::Piece& piece, std::uint64_t) {
    const auto bytes = view.of(piece);
    if (!bytes) failure = bytes.error();
    if (bytes) hashes.push_back(state::hash_bytes(bytes->data(), bytes->size(), 0));
    return failure.ok();
  });
  if (!failure) return failure.error();
  return hashes;
}

std::size_t piece_count(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state) {
  std::size_t count = 0;
  each_piece(buffers, slice, device_state, [&](const state::Piece&, std::uint64_t) { return ++count != 0; });
  return count;
}

std::string piece_name(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state,
                       std::size_t piece) {
  std::string name;
  each_piece(buffers, slice, device_state, [&](const state::Piece&, std::uint64_t offset) {
    name = buffers.name_at(offset);
    return piece-- != 0;
  });
  return name;
}

namespace {

void add_pieces(const state::StateBuffers& buffers, const state::Slice& slice, std::uint32_t peer, bool receives,
                std::vector<comm::DeviceTransfer>& transfers) {
  const std::uint64_t end = slice.offset + slice.length;
  for (std::uint64_t offset = slice.offset; offset < end;) {
    const auto piece = buffers.piece(offset, end - offset);
    if (piece.port != nullptr) transfers.push_back({piece.data, piece.bytes, peer, receives});
    offset += piece.bytes;
  }
}

}  // namespace

std::vector<comm::DeviceTransfer> device_transfers(const state::StateBuffers& buffers,
                                                   const protocol::GenerationPlan& plan, std::uint32_t rank) {
  const auto donors = donor_ranks(plan);
  std::vector<comm::DeviceTransfer> transfers;
  for (std::uint32_t i = 0; i < donors.size(); ++i) {
    const auto slice = state::slice_of(buffers.total_bytes(), i, static_cast<std::uint32_t>(donors.size()));
    for (const std::uint32_t joiner : joiner_ranks(plan)) {
      if (rank == donors[i]) add_pieces(buffers, slice, joiner, false, transfers);
      if (rank == joiner) add_pieces(buffers, slice, donors[i], true, transfers);
    }
  }
  return transfers;
}

namespace {

constexpr std::uint64_t kChunkBytes = 1U << 20;

int poll_timeout(comm::Deadline deadline) {
  if (deadline == comm::Deadline::max()) return 1'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, 1'000));
}

}  // namespace

StateSender::StateSender(std::vector<comm::StateSocket> joiners, const state::TransferHeader& header,
                         state::Slice compared, const state::StateBuffers& buffers,
                         std::chrono::milliseconds time_limit, std::shared_ptr<comm::CancelToken> cancel,
                         DeviceState device_state)
    : joiners_(std::move(joiners)),
      header_(header),
      compared_(compared),
      buffers_(buffers),
      deadline_(std::chrono::steady_clock::now() + time_limit),
      cancel_(std::move(cancel)),
      device_state_(device_state),
      thread_(background_thread("et-donor", [this] { run(); })) {}

StateSender::~StateSender() {
  cancel_->cancel();
  if (thread_.joinable()) thread_.join();
}

Status StateSender::wait() {
  if (thread_.joinable()) thread_.join();
  return failure_;
}

void StateSender::run() {
  const auto bytes = state::encode_header(header_);
  send_to_all(bytes);
  Status status = send_slice();
  if (status) status = send_hashes();
  if (!status) failure_ = status;
}

Status StateSender::send_slice() {
  std::uint64_t offset = header_.slice_offset;
  const std::uint64_t end = offset + header_.slice_length;
  state::HostView view;
  while (offset < end && !joiners_.empty()) {
    const auto piece = buffers_.piece(offset, std::min(kChunkBytes, end - offset));
    offset += piece.bytes;
    if (piece.port != nullptr && device_state_ == DeviceState::kElsewhere) continue;
    const auto in_host_memory = view.of(piece);
    if (!in_host_memory) return in_host_memory.error();
    send_to_all(*in_host_memory);
  }
  return {};
}

Status StateSender::send_hashes() {
  if (joiners_.empty()) return {};
  const auto hashes = piece_hashes(buffers_, compared_, device_state_);
  if (!hashes) return hashes.error();
  send_to_all(std::as_bytes(std::span(*hashes)));
  return {};
}

void StateSender::send_to_all(std::span<const std::byte> bytes) {
  std::erase_if(joiners_, [&](comm::StateSocket& joiner) {
    const Status status = comm::send_all(joiner.channel, bytes, *cancel_, deadline_);
    if (status.ok()) return false;
    failure_ = Error{status.error().code, "sending state to rank " + std::to_string(joiner.peer_rank) +
                                              " failed: " + status.error().message};
    return true;
  });
}

StateReceiver::StateReceiver(std::vector<comm::StateSocket> donors, Generation generation, std::uint64_t sample_count,
                             const state::StateBuffers& buffers, std::chrono::milliseconds time_limit,
                             std::shared_ptr<comm::CancelToken> cancel, std::function<void()> on_header,
                             DeviceState device_state)
    : generation_(generation),
      sample_count_(sample_count),
      buffers_(buffers),
      time_limit_(time_limit),
      cancel_(std::move(cancel)),
      on_header_(std::move(on_header)),
      device_state_(device_state) {
  for (auto& donor : donors) {
    sources_.emplace_back();
    sources_.back().socket = std::move(donor);
  }
  thread_ = background_thread("et-joiner", [this] { run(); });
}

StateReceiver::~StateReceiver() {
  cancel_->cancel();
  if (thread_.joinable()) thread_.join();
}

std::optional<Result<state::TransferHeader>> StateReceiver::header() {
  const std::lock_guard lock(mutex_);
  return header_;
}

Status StateReceiver::wait() {
  if (thread_.joinable()) thread_.join();
  return failure_;
}

void StateReceiver::run() {
  failure_ = receive_everything();
  if (!failure_.ok()) publish_header(failure_.error());
}

Status StateReceiver::receive_everything() {
  if (auto status = poll_sources(true); !status) return status;
  if (auto status = check_headers(); !status) return status;
  deadline_ = std::chrono::steady_clock::now() + time_limit_;
  publish_header(*state::decode_header(sources_.front().header_bytes));
  if (auto status = poll_sources(false); !status) return status;
  return compare();
}

void StateReceiver::publish_header(Result<state::TransferHeader> header) {
  {
    const std::lock_guard lock(mutex_);
    if (!header_) header_ = std::move(header);
  }
  on_header_();
}

// One phase: first until every header has arrived (without a deadline, since each donor sends it when it swaps), then
// the slices.
Status StateReceiver::poll_sources(bool headers) {
  const auto pending = [&](const Source& source) { return headers ? !source.header_done : !source.done; };
  while (true) {
    std::vector<pollfd> waits{{cancel_->fd(), POLLIN, 0}};
    std::vector<Source*> waiting;
    for (auto& source : sources_) {
      if (!pending(source)) continue;
      if (auto status = drain(source, headers); !status) return status;
      if (!pending(source)) continue;
      waiting.push_back(&source);
      waits.push_back({source.socket.channel.fd(), POLLIN, 0});
    }
    if (waiting.empty()) return {};
    if (cancel_->cancelled()) return Error{ErrorCode::kAborted, "the state transfer was cancelled"};
    if (std::chrono::steady_clock::now() >= deadline_) {
      return Error{ErrorCode::kTimeout, "rank " + std::to_string(waiting.front()->socket.peer_rank) +
                                            " did not send its part of the state in time"};
    }
    const bool more = std::any_of(waiting.begin(), waiting.end(),
                                  [](const Source* source) { return source->socket.channel.holds_bytes(); });
    ::poll(waits.data(), waits.size(), more ? 0 : poll_timeout(deadline_));
  }
}

Status StateReceiver::drain(Source& source, bool headers) {
  return headers ? receive_header(source) : receive_slice(source);
}

Result<std::size_t> StateReceiver::receive_some(Source& source, std::span<std::byte> into) {
  auto got = source.socket.channel.try_receive(into);
  if (got) return got;
  return Error{ErrorCode::kPeerLost, "rank " + std::to_string(source.socket.peer_rank) +
                                         " was lost before it had sent its part of the state: " + got.error().message};
}

Status StateReceiver::receive_header(Source& source) {
  while (source.received < source.header_bytes.size()) {
    const auto got = receive_some(source, std::span(source.header_bytes).subspan(source.received));
    if (!got) return got.error();
    if (*got == 0) return {};
    source.received += *got;
    if (source.received != state::kHeaderPrefixBytes) continue;
    const auto length = state::header_length(source.header_bytes);
    if (!length) return length.error();
    source.header_bytes.resize(*length);
  }
  source.header_done = true;
  source.received = 0;
  return {};
}

Status StateReceiver::receive_slice(Source& source) {
  std::uint64_t budget = 8 * kChunkBytes;  // then the next donor gets its turn
  while (source.received < source.slice.length) {
    if (budget == 0) return {};
    const auto left = std::min({budget, kChunkBytes, source.slice.length - source.received});
    const auto piece = buffers_.piece(source.slice.offset + source.received, left);
    if (piece.port != nullptr && device_state_ == DeviceState::kElsewhere) {
      source.received += piece.bytes;
      continue;
    }
    const auto got = receive_some(source, view_.to_fill(piece));
    if (!got) return got.error();
    if (*got == 0) return {};
    if (auto status = view_.written(piece, *got); !status) return status;
    source.received += *got;
    budget -= *got;
  }
  return receive_hashes(source);
}

Status StateReceiver::receive_hashes(Source& source) {
  while (source.hash_bytes < source.hashes.size()) {
    const auto got = receive_some(source, std::span(source.hashes).subspan(source.hash_bytes));
    if (!got) return got.error();
    if (*got == 0) return {};
    source.hash_bytes += *got;
  }
  source.done = true;
  return {};
}

Status StateReceiver::compare() const {
  for (std::size_t index = 0; index < sources_.size(); ++index) {
    const auto& source = sources_[index];
    const auto mine = piece_hashes(buffers_, source.compared, device_state_);
    if (!mine) return mine.error();
    const auto bytes = std::as_bytes(std::span(*mine));
    const auto differs = std::mismatch(bytes.begin(), bytes.end(), source.hashes.begin()).first;
    if (differs == bytes.end()) continue;
    const auto piece = static_cast<std::size_t>(differs - bytes.begin()) / sizeof(std::uint64_t);
    return unequal(source, sources_[(index + 1) % sources_.size()], piece);
  }
  return {};
}

Error StateReceiver::unequal(const Source& one, const Source& other, std::size_t piece) const {
  return {ErrorCode::kInvalid, "the shared state \"" + piece_name(buffers_, one.compared, device_state_, piece) +
                                   "\" is not equal on rank " + std::to_string(one.socket.peer_rank) + " and rank " +
                                   std::to_string(other.socket.peer_rank) +
                                   ", so this worker takes none; all workers must change it alike (run with --audit 1 "
                                   "to find the step)"};
}

Status StateReceiver::check_headers() {
  const auto donors = static_cast<std::uint32_t>(sources_.size());
  std::uint32_t index = 0;
  for (auto& source : sources_) {
    const auto header = state::decode_header(source.header_bytes);
    if (!header) return header.error();
    const std::string who = "rank " + std::to_string(source.socket.peer_rank);
    if (header->layout_hash != buffers_.layout_hash() || header->total_bytes != buffers_.total_bytes()) {
      return Error{ErrorCode::kInvalid, who + " has another state layout (" + std::to_string(header->total_bytes) +
                                            " bytes, here " + std::to_string(buffers_.total_bytes()) +
                                            "); run the same program with the same options everywhere"};
    }
    if (header->sample_count != sample_count_) {
      return Error{ErrorCode::kInvalid, who + " has " + std::to_string(header->sample_count) + " samples, here are " +
                                            std::to_string(sample_count_) + "; use the same data everywhere"};
    }
    source.slice = state::slice_of_donor(buffers_.total_bytes(), index, donors, header->replicas_differ());
    source.compared = state::slice_to_compare(buffers_.total_bytes(), index++, donors, header->replicas_differ());
    source.hashes.resize(sizeof(std::uint64_t) * piece_count(buffers_, source.compared, device_state_));
    if (header->generation != generation_ || header->slice_offset != source.slice.offset ||
        header->slice_length != source.slice.length) {
      return Error{ErrorCode::kInternal, who + " sent another slice of the state than the plan assigns"};
    }
  }
  return {};
}

}  // namespace elastictrain::session
