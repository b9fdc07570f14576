// A program's own collectives: in a step they are repeated with it after a loss; between two steps a loss ends them.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/keyed_hash.h"
#include "train/session/program_collectives.h"
#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

using Bytes = std::span<std::byte>;

Bytes bytes_at(void* data, std::size_t bytes) {
  return {static_cast<std::byte*>(data), bytes};
}

SessionInterrupted interrupted(const std::string& what) {
  return SessionInterrupted(what + ": the generation has changed; call next_batch() again");
}

// A call in a step may be repeated after its input is gone.
std::shared_ptr<std::vector<std::byte>> copy_of(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  return std::make_shared<std::vector<std::byte>>(first, first + bytes);
}

}  // namespace

void Session::sum(float* data, std::size_t count) {
  impl_->require_step("sum() outside a step; call next_batch() first");
  impl_->share("sum()", bytes_at(data, session::bytes_of("sum()", count, sizeof(float))),
               [=](comm::Communicator& others) {
                 return others.all_reduce({data, count});
               });
}

void Session::broadcast(void* data, std::size_t bytes) {
  impl_->require_step("broadcast() outside a step; call next_batch() first");
  broadcast_from(data, bytes, 0);
}

void Session::broadcast_from(void* data, std::size_t bytes, std::uint32_t root) {
  impl_->require(root < impl_->view().world_size, "broadcast_from(): the root is not a rank of this world");
  const auto all = bytes_at(data, session::bytes_of("broadcast_from()", bytes, 1));
  impl_->share("broadcast_from()", all, [=](comm::Communicator& others) {
    if (all.empty()) return Status();
    // After a loss there may be fewer ranks than the step began with.
    return others.broadcast(all, std::min(root, others.world_size() - 1));
  });
}

// Who has received the value sends it, so that a repetition needs no copy of what the others had: as long as nobody
// has, no call has returned, and `data` is there.
void Session::broadcast_into(const void* data, std::size_t bytes, std::uint32_t root, void* received) {
  impl_->require(root < impl_->view().world_size, "broadcast_into(): the root is not a rank of this world");
  const auto room = bytes_at(received, session::bytes_of("broadcast_into()", bytes, 1));
  constexpr std::byte kNothing{0};
  constexpr std::byte kIsRoot{1};
  constexpr std::byte kReceived{2};
  const auto holds = std::make_shared<std::byte>(impl_->view().rank == root ? kIsRoot : kNothing);
  if (*holds == kIsRoot && bytes != 0) std::memmove(received, data, bytes);
  impl_->share("broadcast_into()", {}, [=](comm::Communicator& others) -> Status {
    if (room.empty()) return {};
    std::vector<std::byte> all(others.world_size());
    if (auto status = others.all_gather({holds.get(), 1}, all); !status) return status;
    const auto sender = std::max_element(all.begin(), all.end());
    const auto rank = static_cast<std::uint32_t>(sender - all.begin());
    if (*sender == kNothing && rank == others.rank()) std::memmove(room.data(), data, room.size());
    auto status = others.broadcast(room, rank);
    if (status) *holds = kReceived;
    return status;
  });
}

void Session::reduce_values(void* data, std::size_t count, DataType type, Operation operation) {
  const auto all = bytes_at(data, session::bytes_of("reduce_values()", count, session::size_of(type)));
  impl_->share("reduce_values()", all,
               [=](comm::Communicator& others) { return session::reduce_values(others, all, type, operation); });
}

// The own block is kept like any input: the others' follow from it, also where a loss repeats the call among fewer
// ranks.
void Session::all_gather(const void* data, std::size_t bytes, void* gathered) {
  impl_->require(impl_->lifecycle_.started, "a collective before start(); call start() first");
  const auto all = bytes_at(gathered, session::bytes_of("all_gather()", bytes, impl_->view().world_size));
  const auto mine = all.subspan(bytes * impl_->view().rank, bytes);
  if (bytes != 0) std::memmove(mine.data(), data, bytes);
  impl_->share("all_gather()", mine, [=](comm::Communicator& others) -> Status {
    if (mine.empty()) return {};
    const std::size_t size = mine.size() * others.world_size();
    const bool fits = size <= all.size();
    std::vector<std::byte> apart(fits ? 0 : size);
    const Bytes room = fits ? all.first(size) : Bytes(apart);
    if (auto status = others.all_gather(mine, room); !status) return status;
    if (!fits) std::copy_n(room.begin(), all.size(), all.begin());
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(std::min(size, all.size())), all.end(), std::byte{0});
    return {};
  });
}

void Session::reduce_scatter(const void* data, std::size_t count_per_rank, DataType type, Operation operation,
                             void* result) {
  impl_->require(impl_->lifecycle_.started, "a collective before start(); call start() first");
  const std::size_t part = session::bytes_of("reduce_scatter()", count_per_rank, session::size_of(type));
  const auto mine = copy_of(data, session::bytes_of("reduce_scatter()", part, impl_->view().world_size));
  impl_->share("reduce_scatter()", {}, [=, first = part * impl_->view().rank](comm::Communicator& others) -> Status {
    if (mine->empty()) return {};
    std::vector<std::byte> all = *mine;
    if (auto status = session::reduce_values(others, all, type, operation); !status) return status;
    std::copy_n(all.data() + first, part, static_cast<std::byte*>(result));
    return {};
  });
}

// By hashes, so that any size costs as little as the next.
void Session::agree(const void* data, std::size_t bytes, int* equal) {
  const std::uint64_t size = session::bytes_of("agree()", bytes, 1);
  const std::span content(static_cast<const std::byte*>(data), bytes);
  const auto mine = comm::keyed_hash(std::as_bytes(std::span(&size, 1)), {content});
  *equal = 0;
  impl_->share("agree()", {}, [mine, equal](comm::Communicator& others) -> Status {
    std::vector<std::byte> all(mine.size() * others.world_size());
    if (auto status = others.all_gather(mine, all); !status) return status;
    std::size_t same = 0;
    for (std::size_t at = 0; at < all.size(); at += mine.size()) {
      same += std::equal(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(at)) ? 1 : 0;
    }
    *equal = same == others.world_size() ? 1 : 0;
    return {};
  });
}

void Session::reduce_values_in(std::uint64_t group, void* data, std::size_t count, DataType type, Operation operation) {
  const auto all = bytes_at(data, session::bytes_of("reduce_values_in()", count, session::size_of(type)));
  impl_->share("reduce_values_in()", all, [=](comm::Communicator& others) -> Status {
    auto met = session::Group::meet(others, group);
    return met ? met->reduce(all, type, operation) : met.error();
  });
}

std::uint32_t Session::all_gather_in(std::uint64_t group, const void* data, std::size_t bytes, void* gathered) {
  impl_->require(impl_->lifecycle_.started, "a collective before start(); call start() first");
  const auto room = bytes_at(gathered, session::bytes_of("all_gather_in()", bytes, impl_->view().world_size));
  const auto mine = copy_of(data, bytes);
  const auto size = std::make_shared<std::uint32_t>(0);
  impl_->share("all_gather_in()", {}, [=](comm::Communicator& others) -> Status {
    auto met = session::Group::meet(others, group);
    if (!met) return met.error();
    *size = met->size();
    std::vector<std::byte> received(mine->size() * met->size());
    if (auto status = met->all_gather(*mine, received); !status) return status;
    const auto end = std::copy_n(received.begin(), std::min(received.size(), room.size()), room.begin());
    std::fill(end, room.end(), std::byte{0});
    return {};
  });
  return *size;
}

void Session::broadcast_in(std::uint64_t group, void* data, std::size_t bytes, std::uint32_t root) {
  const auto all = bytes_at(data, session::bytes_of("broadcast_in()", bytes, 1));
  impl_->share("broadcast_in()", all, [=](comm::Communicator& others) -> Status {
    auto met = session::Group::meet(others, group);
    return met ? met->broadcast(all, std::min(root, met->size() - 1)) : met.error();
  });
}

// A repetition begins with the values that the program passed.
void Session::reduce_values_async(std::string_view key, void* data, std::size_t count, DataType type,
                                  Operation operation) {
  const auto all = bytes_at(data, session::bytes_of("reduce_values_async()", count, session::size_of(type)));
  impl_->start_values("reduce_values_async()", key, [&] {
    return [=, mine = copy_of(data, all.size())](comm::Communicator& others) {
      std::copy(mine->begin(), mine->end(), all.begin());
      return session::reduce_values(others, all, type, operation);
    };
  });
}

void Session::broadcast_async(std::string_view key, void* data, std::size_t bytes, std::uint32_t root) {
  const auto all = bytes_at(data, session::bytes_of("broadcast_async()", bytes, 1));
  impl_->require(root < impl_->view().world_size, "broadcast_async(): the root is not a rank of this world");
  impl_->start_values("broadcast_async()", key, [&] {
    return [=](comm::Communicator& others) {
      return all.empty() ? Status() : others.broadcast(all, std::min(root, others.world_size() - 1));
    };
  });
}

void Session::Impl::start_values(const char* what, std::string_view key,
                                 const std::function<session::Collective()>& make) {
  const auto refuse = [what](const std::string& why) { throw SessionError(what + why); };
  lifecycle_.require(lifecycle_.started, "a collective before start(); call start() first");
  if (!worker_->runner.is_open()) refuse(" outside a step; call next_batch() first");
  require_that_all_meet(what);
  if (key.empty() || key.size() > session::KeyedValues::kMaxKeyBytes) {
    refuse(": a key has 1 to " + std::to_string(session::KeyedValues::kMaxKeyBytes) + " bytes, not " +
           std::to_string(key.size()));
  }
  auto& keyed = worker_->keyed;
  if (keyed.has_started(key)) refuse(": the key \"" + std::string(key) + "\" is in use in this step");
  const std::size_t place = keyed.started();
  keyed.start(key, make());
  program_.keeps_step = true;
  worker_->runner.submit(
      own_bucket({}, [&keyed, place](comm::Communicator& others) { return keyed.run(place, others); }));
}

void Session::barrier() {
  impl_->share("barrier()", {}, [](comm::Communicator& others) { return others.barrier(); });
}

void* Session::step_memory(std::size_t bytes) {
  impl_->require(impl_->lifecycle_.started, "step_memory() before start(); call start() first");
  return impl_->program_.memory.take(session::bytes_of("step_memory()", bytes, 1));
}

// Behind the step's first sum, with which the control lane travels, and before the program may write its state. First
// is who the program knows to be; after a loss in this step another worker may send.
void Session::Impl::send_first_state(bool in_background) {
  auto& worker = *worker_;
  auto& step = worker.runner.step();
  if (std::exchange(step.first_state_sent, true)) return;
  using Place = session::FirstState::Place;
  const auto place = view().rank == 0 ? Place::kFirst : Place::kOther;
  const bool has_state = !worker.handover.is_receiving();
  for (const auto marked :
       program_.first.take(worker.run_progress.next_step(), has_state ? place : Place::kWithoutState)) {
    reduce_own(own_bucket(marked, [marked](comm::Communicator& others) { return others.broadcast(marked, 0); }),
               in_background);
  }
  if (!worker.checkpoints.is_due(worker.run_progress.next_step(), 1) || program_.local.is_empty()) return;
  program_.local.take();
  reduce_own(own_bucket({}, [this](comm::Communicator& others) { return program_.local.gather(others); }),
             in_background);
}

void Session::Impl::reduce_own(session::Bucket& bucket, bool in_background) {
  auto& worker = *worker_;
  worker.own_data.reserve_copy(bucket);
  if (in_background) return worker.runner.submit(bucket);
  worker.measurements.clock().collective_begins(session::Clock::now());
  settle(worker.runner.reduce(bucket), false);
}

session::Bucket& Session::Impl::own_bucket(Bytes in_place, session::Collective collective) {
  auto& bucket = worker_->runner.add(nullptr, 0);
  bucket.kind = session::Bucket::Kind::kOwnData;
  bucket.bytes = in_place;
  bucket.share = std::move(collective);
  return bucket;
}

void Session::Impl::require_that_all_meet(const char* what) const {
  const bool in_round = worker_->runner.in_round() || (worker_->runner.is_open() && worker_->run_progress.runs_ahead());
  if (!in_round) return;
  throw SessionError(std::string(what) +
                     " while workers that average in pairs run ahead of each other; call it in every step from the "
                     "first one on, or between two epochs, or set synchronization.round_ms = 0");
}

// `in_place`: what the collective changes, to be restored before a repetition.
void Session::Impl::share(const char* what, Bytes in_place, session::Collective collective) {
  lifecycle_.require(lifecycle_.started, "a collective before start(); call start() first");
  require_that_all_meet(what);
  if (!worker_->runner.is_open()) return share_between_steps(what, collective);
  program_.keeps_step = true;
  settle_background();
  reduce_own(own_bucket(in_place, std::move(collective)), false);
}

void Session::Impl::share_between_steps(const char* what, const session::Collective& collective) {
  lifecycle_.require(lifecycle_.is_running() || lifecycle_.outcome == Outcome::kFinished,
                     "a collective after this worker has left its run; end the program");
  if (lifecycle_.is_running() && meets_others_in_next_step_)
    throw interrupted(std::string(what) + " between two steps");
  const auto& assignment = worker_->exchange.assignment();
  const Status status = worker_->gate.run(what, [&] { return collective(*assignment.communicator); });
  if (status) return;
  const std::string text = std::string(what) + " between two steps: " + status.error().message;
  if (!plane_ || status.error().code == ErrorCode::kInvalid) lifecycle_.fail(text);
  if (hook_ == Hook::kRuns) {
    hook_ = Hook::kInterrupted;  // an assignment that was agreed on comes first
    meets_others_in_next_step_ = true;
  } else if (lifecycle_.is_running()) {
    take_next_assignment();
  }
  throw interrupted(text);
}

// Between two steps, after a loss.
void Session::Impl::take_next_assignment() {
  meets_others_in_next_step_ = true;
  if (!worker_->recovery.take_assignment()) return rejoin();
  if (worker_->view.is_behind()) worker_->view.publish();
}

}  // namespace elastictrain
