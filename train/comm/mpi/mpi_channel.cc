#include "train/comm/mpi/mpi_channel.h"

#include <sched.h>

#include <thread>
#include <utility>

namespace elastictrain::comm {
namespace {

constexpr auto kNap = std::chrono::microseconds(50);
// Number of rests between two checks of the clock and of notices.
constexpr int kLookEvery = 16;

}  // namespace

MpiChannel::MpiChannel(MpiWorld& world, Generation generation, std::uint32_t rank, std::vector<std::uint32_t> members,
                       OpControl& control)
    : world_(world), generation_(generation), rank_(rank), members_(std::move(members)), control_(control) {
  for (std::uint32_t peer = 0; peer < members_.size(); ++peer) figures_.push_back({.rank = peer});
}

MpiChannel::~MpiChannel() {
  abandon();
}

void MpiChannel::begin(MpiOperation operation, std::uint64_t size, Element element) {
  call_ = {operation, element, operation == MpiOperation::kSend ? 0 : ++collectives_, size};
  rests_ = 0;
}

MpiMessagePtr MpiChannel::fresh() {
  if (free_.empty()) free_.push_back(MpiMessagePtr(new MpiMessage));
  MpiMessagePtr message = std::move(free_.back());
  free_.pop_back();
  message->header = {.call = call_};
  return message;
}

int MpiChannel::tag() const {
  return world_.tag(generation_, point_to_point() ? MpiWorld::Plane::kPointToPoint : MpiWorld::Plane::kCollective);
}

Status MpiChannel::send(MpiMessagePtr message, std::uint32_t to) {
  auto request = world_.send(message->bytes(), members_[to], tag());
  if (!request) return request.error();
  figures_[to].bytes_sent += message->header.bytes;
  sending_.push_back({*request, std::move(message), to});
  return {};
}

Status MpiChannel::expect(std::uint32_t from) {
  auto message = fresh();
  auto request = world_.receive(message->room(), members_[from], tag());
  if (!request) return request.error();
  expected_.push_back({*request, std::move(message), from});
  return {};
}

Result<MpiMessagePtr> MpiChannel::poll() {
  auto& oldest = expected_.front();
  const auto bytes = world_.test(oldest.request);
  if (!bytes) return bytes.error();
  if (!*bytes) return MpiMessagePtr();
  rests_ = 0;
  InFlight arrived = std::move(oldest);
  expected_.pop_front();
  if (auto status = check(*arrived.message, **bytes, arrived.peer); !status) return status.error();
  figures_[arrived.peer].bytes_received += arrived.message->header.bytes;
  return std::move(arrived.message);
}

Status MpiChannel::check(const MpiMessage& message, std::size_t bytes, std::uint32_t from) const {
  if (bytes >= MpiMessage::kHeaderBytes && message.bytes().size() == bytes && message.header.call == call_) return {};
  return Error{ErrorCode::kInvalid, "rank " + std::to_string(from) +
                                        " runs another operation, or one of another size or type, than rank " +
                                        std::to_string(rank_)};
}

Result<MpiMessagePtr> MpiChannel::wait() {
  while (true) {
    auto message = poll();
    if (!message || *message) return message;
    if (auto status = let_go_of_sent(); !status) return status.error();
    if (auto status = rest(); !status) return status.error();
  }
}

Status MpiChannel::let_go_of_sent() {
  while (!sending_.empty()) {
    const auto done = world_.test(sending_.front().request);
    if (!done) return done.error();
    if (!*done) return {};
    rests_ = 0;
    recycle(std::move(sending_.front().message));
    sending_.pop_front();
  }
  return {};
}

Status MpiChannel::wait_sent() {
  return wait_sending_below(1);
}

Status MpiChannel::wait_sending_below(std::size_t window) {
  while (true) {
    if (auto status = let_go_of_sent(); !status) return status;
    if (sending_.size() < window) return {};
    if (auto status = rest(); !status) return status;
  }
}

Status MpiChannel::rest() {
  const int rests = rests_++;
  if (rests % kLookEvery == kLookEvery - 1) {
    if (auto status = control_.check(); !status) return status;
    if (world_.is_broken(generation_)) {
      return Error{ErrorCode::kPeerLost, "another rank of generation " + std::to_string(generation_) + " aborted it"};
    }
    if (look_) {
      if (auto status = look_(); !status) return status;
    }
  }
  if (rests < control_.spins()) return {};
  if (rests < control_.spins() + control_.yields()) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

void MpiChannel::abandon() noexcept {
  for (auto& flight : std::exchange(expected_, {})) world_.abandon(flight.request, std::move(flight.message), true);
  for (auto& flight : std::exchange(sending_, {})) world_.abandon(flight.request, std::move(flight.message), false);
}

}  // namespace elastictrain::comm
