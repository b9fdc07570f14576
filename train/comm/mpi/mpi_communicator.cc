#include "train/comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>

#include "train/comm/kernels.h"
#include "train/comm/mpi/mpi_ring.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {
namespace {

// Up to here the number of messages costs more than their bytes.
constexpr std::size_t kDoublingBytes = 16 << 10;
constexpr std::uint32_t kWindow = 4;

// Each rank of a launch may have an agent of its own, whose key then says nothing of the machine.
std::size_t ranks_on_machine(const BuildSpec& spec) {
  const auto& mine = spec.peers[spec.rank];
  return static_cast<std::size_t>(std::count_if(spec.peers.begin(), spec.peers.end(), [&](const auto& peer) {
    return peer.host_key == mine.host_key || peer.addresses == mine.addresses;
  }));
}

std::uint32_t segments_of(std::size_t bytes) {
  const auto segments = (bytes + MpiMessage::kPayloadBytes - 1) / MpiMessage::kPayloadBytes;
  return static_cast<std::uint32_t>(std::max<std::size_t>(segments, 1));
}

// Whole where `segment` is not the last one.
template <class Byte>
std::span<Byte> segment_of(std::span<Byte> data, std::uint32_t segment) {
  const std::size_t begin = segment * MpiMessage::kPayloadBytes;
  return data.subspan(begin, std::min(MpiMessage::kPayloadBytes, data.size() - begin));
}

void fill(MpiMessage& message, std::uint32_t segment, std::span<const std::byte> bytes) {
  message.header.segment = segment;
  message.header.bytes = bytes.size();
  if (!bytes.empty()) std::memcpy(message.payload, bytes.data(), bytes.size());
}

Status empty_into(std::span<std::byte> bytes, const MpiMessage& message) {
  if (message.header.bytes != bytes.size()) return Error{ErrorCode::kInvalid, "a message of another size came"};
  if (!bytes.empty()) std::memcpy(bytes.data(), message.payload, bytes.size());
  return {};
}

// The input stays as it is while it is summed, and is kept where results take its place.
class ReduceBlocks final : public RingBlocks {
 public:
  ReduceBlocks(const ReduceVector& vector, std::uint32_t size) : vector_(vector), size_(size), stored_(size) {}

  std::size_t bytes_of(std::uint32_t block) const override { return (begin(block + 1) - begin(block)) * sizeof(float); }

  void load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) override {
    for_values(block, offset, out, [](const ReduceVector::Run& run, float* values) {
      copy_scaled(values, run.values, run.count, run.scale);
    });
  }
  void add_to(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) override {
    for_values(block, offset, sum, [](const ReduceVector::Run& run, float* values) {
      add_scaled(values, run.values, run.count, run.scale);
    });
  }
  void store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) override {
    stored_[block].push_back(offset);
    const float* const from = reinterpret_cast<const float*>(result.data());
    const std::size_t first = begin(block) + offset / sizeof(float);
    vector_.for_runs(first, first + result.size() / sizeof(float), [&](const ReduceVector::Run& run, std::size_t at) {
      run.keep_input();
      std::memcpy(run.values, from + at, run.count * sizeof(float));
    });
  }

  // After a failure: what no result has taken the place of.
  void keep_the_rest() const {
    for (std::uint32_t block = 0; block < size_; ++block) {
      for (std::size_t offset = 0; offset < bytes_of(block); offset += MpiMessage::kPayloadBytes) {
        const auto& stored = stored_[block];
        if (std::find(stored.begin(), stored.end(), offset) != stored.end()) continue;
        const std::size_t first = begin(block) + offset / sizeof(float);
        const std::size_t bytes = std::min(MpiMessage::kPayloadBytes, bytes_of(block) - offset);
        keep_data(first, first + bytes / sizeof(float));
      }
    }
  }

 private:
  std::size_t begin(std::uint32_t block) const { return part_begin(vector_.size(), size_, block); }

  template <class F>
  void for_values(std::uint32_t block, std::size_t offset, std::span<std::byte> bytes, F f) {
    float* const values = reinterpret_cast<float*>(bytes.data());
    const std::size_t first = begin(block) + offset / sizeof(float);
    vector_.for_runs(first, first + bytes.size() / sizeof(float),
                     [&](const ReduceVector::Run& run, std::size_t at) { f(run, values + at); });
  }
  void keep_data(std::size_t first, std::size_t end) const {
    vector_.for_runs(first, end, [](const ReduceVector::Run& run, std::size_t) { run.keep_input(); });
  }

  const ReduceVector& vector_;
  const std::uint32_t size_;
  std::vector<std::vector<std::size_t>> stored_;
};

class GatherBlocks final : public RingBlocks {
 public:
  GatherBlocks(std::span<std::byte> all, std::size_t block_bytes) : all_(all), block_bytes_(block_bytes) {}

  std::size_t bytes_of(std::uint32_t) const override { return block_bytes_; }
  void load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), place(block, offset), out.size());
  }
  void add_to(std::uint32_t, std::size_t, std::span<std::byte>) override {}
  void store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) override {
    std::memcpy(place(block, offset), result.data(), result.size());
  }

 private:
  std::byte* place(std::uint32_t block, std::size_t offset) const {
    return all_.data() + block * block_bytes_ + offset;
  }

  const std::span<std::byte> all_;
  const std::size_t block_bytes_;
};

double data_square_sum(const ReduceVector& vector) {
  double sum = 0;
  vector.for_runs(0, vector.size(), [&](const ReduceVector::Run& run, std::size_t) {
    if (run.is_data) sum += square_sum(run.values, run.count);
  });
  return sum;
}

}  // namespace

MpiCommunicator::MpiCommunicator(const BuildSpec& spec, MpiWorld& world, std::vector<std::uint32_t> members)
    : rank_(spec.rank),
      size_(static_cast<std::uint32_t>(spec.peers.size())),
      generation_(spec.generation),
      threads_may_call_(world.library().threads_may_call()),
      control_(spec.operation_timeout, ranks_on_machine(spec)),
      channel_(world, spec.generation, spec.rank, std::move(members), control_) {}

// Where the library takes one caller at a time, calls take turns; each is short, so plans are built beside training all
// the same.
Capabilities MpiCommunicator::capabilities() const {
  Capabilities capabilities;
  capabilities.name = threads_may_call_ ? "mpi" : "mpi, one thread at a time";
  return capabilities;
}

Status MpiCommunicator::usable() const {
  if (control_.aborted()) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  if (broken_) return Error{ErrorCode::kPeerLost, "the communicator is broken by an earlier error"};
  return {};
}

Status MpiCommunicator::settle(Status status) {
  if (status) [[likely]]
    return status;
  broken_ = true;
  channel_.tell_broken();
  channel_.abandon();
  if (control_.aborted()) return Error{ErrorCode::kAborted, "the operation was aborted"};
  return status;
}

void MpiCommunicator::abort() noexcept {
  control_.request_abort();
  if (!broken_.exchange(true)) channel_.tell_broken();
}

Status MpiCommunicator::all_reduce(std::span<float> data, const ReduceOptions& options, ReduceStats* stats) {
  if (!options.keep.empty() && options.keep.size() != data.size()) {
    return settle(Error{ErrorCode::kInvalid, "all_reduce keeps all of its input or nothing"});
  }
  const ReduceVector vector(data, options.lane, options.scale, options.keep);
  if (auto status = usable(); !status) {
    vector.keep_all();
    return status;
  }
  control_.begin();
  const bool norms = options.want_norms && stats != nullptr;
  if (norms) stats->local_square_sum = data_square_sum(vector);
  auto status = settle(reduce(vector));
  if (status && norms) stats->reduced_square_sum = data_square_sum(vector);
  return status;
}

Status MpiCommunicator::reduce(const ReduceVector& vector) {
  const std::size_t bytes = vector.size() * sizeof(float);
  if (bytes <= kDoublingBytes || size_ == 1) {
    vector.keep_all();
    if (size_ > 1) return reduce_by_doubling(vector);
    vector.for_runs(0, vector.size(),
                    [](const auto& run, std::size_t) { scale_in_place(run.values, run.count, run.scale); });
    return {};
  }
  return reduce_around_ring(vector);
}

Status MpiCommunicator::reduce_around_ring(const ReduceVector& vector) {
  channel_.begin(MpiOperation::kReduceRing, vector.size());
  ReduceBlocks blocks(vector, size_);
  auto status = MpiRing(channel_, blocks, rank_, size_, true).run();
  if (!status) blocks.keep_the_rest();
  return status;
}

// Pairs exchange sums over growing distances; both add the same two numbers, so all ranks hold the same bits. Of the
// ranks beyond a power of two, each gives its part to a neighbour first and gets the sum from it at last.
Status MpiCommunicator::reduce_by_doubling(const ReduceVector& vector) {
  channel_.begin(MpiOperation::kReduceDoubling, vector.size());
  const std::size_t count = vector.size();
  auto sum = channel_.fresh();
  sum->header.bytes = count * sizeof(float);
  vector.for_runs(0, count, [&](const auto& run, std::size_t at) {
    copy_scaled(sum->values() + at, run.values, run.count, run.scale);
  });
  std::uint32_t pairs = 1;
  while (pairs * 2 <= size_) pairs *= 2;
  const std::uint32_t beyond = size_ - pairs;
  const bool gives = rank_ < 2 * beyond && rank_ % 2 == 0;
  Result<MpiMessagePtr> result(MpiMessagePtr{});
  if (rank_ < 2 * beyond) {
    if (auto status = channel_.expect(rank_ ^ 1); !status) return status;
  }
  if (gives) {
    if (auto status = channel_.send(std::move(sum), rank_ + 1); !status) return status;
    result = channel_.wait();
  } else {
    if (rank_ < 2 * beyond) {
      auto other = channel_.wait();
      if (!other) return other.error();
      add(sum->values(), (*other)->values(), count);
      channel_.recycle(std::move(*other));
    }
    const std::uint32_t place = rank_ < 2 * beyond ? rank_ / 2 : rank_ - beyond;
    const auto rank_at = [&](std::uint32_t at) { return at < beyond ? 2 * at + 1 : at + beyond; };
    result = std::move(sum);
    for (std::uint32_t distance = 1; distance < pairs; distance *= 2) {
      result = exchange(std::move(*result), rank_at(place ^ distance), count);
      if (!result) return result.error();
    }
  }
  if (!result) return result.error();
  vector.for_runs(0, count, [&](const auto& run, std::size_t at) {
    std::memcpy(run.values, (*result)->values() + at, run.count * sizeof(float));
  });
  if (!gives && rank_ < 2 * beyond) {
    if (auto status = channel_.send(std::move(*result), rank_ - 1); !status) return status;
  } else {
    channel_.recycle(std::move(*result));
  }
  return channel_.wait_sent();
}

Result<MpiMessagePtr> MpiCommunicator::exchange(MpiMessagePtr sum, std::uint32_t partner, std::size_t count) {
  if (auto status = channel_.expect(partner); !status) return status.error();
  // Nothing takes a message into use again before the next call, so that its values stay until they are added.
  const float* const mine = sum->values();
  if (auto status = channel_.send(std::move(sum), partner); !status) return status.error();
  auto other = channel_.wait();
  if (other) add((*other)->values(), mine, count);
  return other;
}

Status MpiCommunicator::broadcast(std::span<std::byte> data, std::uint32_t root) {
  if (auto status = usable(); !status) return status;
  if (root >= size_)
    return Error{ErrorCode::kInvalid, "broadcast from rank " + std::to_string(root) + ": no such rank"};
  if (size_ == 1) return {};
  control_.begin();
  channel_.begin(MpiOperation::kBroadcast, data.size());
  if (rank_ != root) return settle(receive_down_the_tree(data, root));
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    if (auto status = settle(send_down_the_tree(data, segment, root)); !status) return status;
  }
  return settle(channel_.wait_sent());
}

Status MpiCommunicator::receive_down_the_tree(std::span<std::byte> data, std::uint32_t root) {
  const std::uint32_t place = (rank_ + size_ - root) % size_;
  const auto parent = static_cast<std::uint32_t>(*tree_parent(place) + root) % size_;
  std::uint32_t expected = 0;
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    for (; expected < segments_of(data.size()) && channel_.expected() < kWindow; ++expected) {
      if (auto status = channel_.expect(parent); !status) return status;
    }
    auto message = channel_.wait();
    if (!message) return message.error();
    if (auto status = empty_into(segment_of(data, segment), **message); !status) return status;
    channel_.recycle(std::move(*message));
    if (auto status = send_down_the_tree(data, segment, root); !status) return status;
  }
  return channel_.wait_sent();
}

Status MpiCommunicator::send_down_the_tree(std::span<const std::byte> data, std::uint32_t segment, std::uint32_t root) {
  for (const auto child : tree_children((rank_ + size_ - root) % size_, size_)) {
    auto message = channel_.fresh();
    fill(*message, segment, segment_of(data, segment));
    if (auto status = channel_.send(std::move(message), static_cast<std::uint32_t>(child + root) % size_); !status) {
      return status;
    }
  }
  return channel_.let_go_of_sent();
}

Status MpiCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (auto status = usable(); !status) return status;
  if (all.size() != mine.size() * size_) {
    return settle(Error{ErrorCode::kInvalid, "all_gather needs room for one block of every rank"});
  }
  if (!mine.empty()) std::memmove(all.data() + rank_ * mine.size(), mine.data(), mine.size());
  if (size_ == 1) return {};
  control_.begin();
  channel_.begin(MpiOperation::kAllGather, all.size());
  GatherBlocks blocks(all, mine.size());
  return settle(MpiRing(channel_, blocks, rank_, size_, false).run());
}

Status MpiCommunicator::check_peer(std::uint32_t peer) const {
  if (auto status = usable(); !status) return status;
  if (reaches(peer)) return {};
  return Error{ErrorCode::kInvalid, "rank " + std::to_string(peer) + " is no peer of rank " + std::to_string(rank_)};
}

Status MpiCommunicator::send(std::span<const std::byte> data, std::uint32_t to) {
  if (auto status = check_peer(to); !status) return status;
  control_.begin();
  channel_.begin(MpiOperation::kSend, data.size());
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    while (channel_.sending() >= kWindow) {
      auto status = channel_.let_go_of_sent();
      if (status && channel_.sending() >= kWindow) status = channel_.rest();
      if (!status) return settle(status);
    }
    auto message = channel_.fresh();
    fill(*message, segment, segment_of(data, segment));
    if (auto status = settle(channel_.send(std::move(message), to)); !status) return status;
  }
  return settle(channel_.wait_sent());
}

Status MpiCommunicator::receive(std::span<std::byte> data, std::uint32_t from) {
  if (auto status = check_peer(from); !status) return status;
  control_.begin();
  channel_.begin(MpiOperation::kSend, data.size());
  std::uint32_t expected = 0;
  for (std::uint32_t segment = 0; segment < segments_of(data.size()); ++segment) {
    for (; expected < segments_of(data.size()) && channel_.expected() < kWindow; ++expected) {
      if (auto status = settle(channel_.expect(from)); !status) return status;
    }
    auto message = channel_.wait();
    if (!message) return settle(message.error());
    if (auto status = settle(empty_into(segment_of(data, segment), **message)); !status) return status;
    channel_.recycle(std::move(*message));
  }
  return {};
}

// A sum of one number: nobody has it before everybody has given its part.
Status MpiCommunicator::barrier() {
  float present = 1;
  return all_reduce(std::span(&present, 1), {}, nullptr);
}

Traffic MpiCommunicator::traffic() const {
  Traffic traffic;
  for (const auto& peer : channel_.figures()) {
    traffic.bytes_sent += peer.bytes_sent;
    traffic.bytes_received += peer.bytes_received;
  }
  return traffic;
}

std::vector<PeerFigures> MpiCommunicator::peers() const {
  std::vector<PeerFigures> peers;
  for (const auto& peer : channel_.figures()) {
    if (peer.bytes_sent + peer.bytes_received > 0) peers.push_back(peer);
  }
  return peers;
}

Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, std::vector<std::uint32_t> members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from,
                                           std::span<const std::uint32_t> state_transfer_to) {
  const bool all_there = std::all_of(members.begin(), members.end(), [&](auto rank) { return rank < world.size(); });
  if (!all_there || members.size() != spec.peers.size()) {
    return Error{ErrorCode::kInvalid, "a member of generation " + std::to_string(spec.generation) +
                                          " is no rank of this MPI launch of " + std::to_string(world.size())};
  }
  auto sockets = connect_state(spec, listener, cancel, state_transfer_from, state_transfer_to);
  if (!sockets) return sockets.error();
  BuildResult result;
  result.communicator = std::make_unique<MpiCommunicator>(spec, world, std::move(members));
  result.state_sockets = std::move(*sockets);
  return result;
}

}  // namespace elastictrain::comm
