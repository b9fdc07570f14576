#include "train/comm/nccl/nccl_communicator.h"

#include <utility>

#include "supervisor/protocol/check.h"
#include "train/comm/communicator.h"
#include "train/comm/device_interfaces.h"
#include "train/comm/nccl/bucket_kernels.h"
#include "train/comm/nccl/build_agreement.h"
#include "train/comm/nccl/device_plane.h"
#include "train/device/stream.h"

namespace elastictrain::comm {
namespace {

using std::chrono::steady_clock;

// How often the ranks exchange the state of their builds.
constexpr std::chrono::milliseconds kRound{10};

class NcclCommunicator final : public OverCommunicator, public DeviceSums, public DeviceTransfers {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host_plane, const NcclOptions& options,
                   std::unique_ptr<BucketKernels> kernels)
      : OverCommunicator(std::move(host_plane)), options_(options), kernels_(std::move(kernels)) {}
  ~NcclCommunicator() override;

  Status make_marks();
  void use(std::unique_ptr<DevicePlane> plane) {
    ET_CHECK(plane_ == nullptr && !used_, "a communicator gets its NCCL once, before its first call");
    plane_ = std::move(plane);
  }
  Communicator& host_plane() { return *host_; }
  std::shared_ptr<NcclComm> nccl_comm() const { return plane_ ? plane_->comm() : nullptr; }

  Capabilities capabilities() const override;
  DeviceSums* device_sums() override { return this; }
  DeviceTransfers* device_transfers() override { return this; }
  bool queues_sums() const override { return true; }
  bool exchanges_narrow() const override;
  Status start_sum(const DeviceReduce& reduce) override;
  Status finish_sums(ReduceStats* stats) override;
  Status start_device_transfers(std::span<const DeviceTransfer> transfers, void* ready) override;
  Status finish_device_transfers() override;
  void abort() noexcept override;

 private:
  // Passes a result through. An error breaks the communicator and takes the caller's memory back from the device.
  Status settle(Status status);
  // The same for the host plane, which refuses some calls without breaking.
  Status passed_on(Status status) override;
  Status usable();
  // An error after which all sums that were started have ended.
  Status give_up(const Status& status);
  Status prepare(const DeviceReduce& reduce, std::size_t index);
  Status queue(const DeviceReduce& reduce, std::size_t index);
  Status check(const DeviceReduce& reduce) const;
  Status sum_over_ranks(const DeviceReduce& reduce);
  Status exchange(const DeviceReduce& reduce);
  Status mark_sum(const DeviceReduce& reduce) const;
  Status order_after(device::CudaEvent mark, device::CudaStream stream) const;
  Status order_after_caller(device::CudaStream caller, device::CudaStream stream);
  Status wait(const device::Event& mark);
  Deadline operation_deadline() const;

  const NcclOptions options_;
  std::unique_ptr<BucketKernels> kernels_;
  std::unique_ptr<DevicePlane> plane_;  // null in a world of one
  // Inputs are prepared in a stream of their own: next to earlier sums, and whatever becomes of these.
  device::Stream preparing_;
  device::Event caller_;
  device::Event prepared_;
  device::Event reduced_;  // the last sum that was started
  device::Event transferred_;
  std::vector<bool> measured_;  // of the sums that were started: whether norms are wanted
  bool transferring_ = false;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> used_{false};
};

// A communicator that was built and never used is aborted by this rank alone, while others may use it: they must see a
// lost peer, not the orderly end of a rank that assumes that all are done.
NcclCommunicator::~NcclCommunicator() {
  if (plane_ && used_ && !broken_ && !aborted_) plane_->close(std::move(host_));
}

Status NcclCommunicator::make_marks() {
  auto stream = device::Stream::create(options_.device);
  if (!stream) return stream.error();
  preparing_ = std::move(*stream);
  for (auto* event : {&caller_, &prepared_, &reduced_, &transferred_}) {
    auto made = device::Event::create(options_.device);
    if (!made) return made.error();
    *event = std::move(*made);
  }
  return {};
}

Capabilities NcclCommunicator::capabilities() const {
  Capabilities capabilities;
  capabilities.name = "nccl";
  capabilities.abort_is_prompt = false;
  return capabilities;
}

Status NcclCommunicator::usable() {
  if (aborted_) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  if (broken_) return Error{ErrorCode::kPeerLost, "the communicator is broken by an earlier error"};
  return {};
}

Status NcclCommunicator::settle(Status status) {
  used_.store(true, std::memory_order_relaxed);
  if (status) [[likely]]
    return status;
  broken_ = true;
  host_->abort();
  if (plane_) plane_->stop();
  // A wait may see an abort as a closed connection; the cause is the abort.
  if (aborted_) return Error{ErrorCode::kAborted, "the operation was aborted"};
  return status;
}

Status NcclCommunicator::passed_on(Status status) {
  used_.store(true, std::memory_order_relaxed);
  return status || host_->check_peers() ? status : settle(status);
}

void NcclCommunicator::abort() noexcept {
  aborted_ = true;
  host_->abort();
  if (plane_) plane_->request_abort();
}

Deadline NcclCommunicator::operation_deadline() const {
  return options_.operation_timeout.count() > 0 ? steady_clock::now() + options_.operation_timeout : Deadline::max();
}

// Alone there is nothing to exchange, and nothing that others must do alike.
bool NcclCommunicator::exchanges_narrow() const {
  return world_size() == 1 || (options_.exchanges_narrow && world_size() <= kMostExchanging);
}

Status NcclCommunicator::check(const DeviceReduce& reduce) const {
  const bool needs_keep = reduce.input == DeviceReduce::Input::kKept;
  const void* const memory = is_exchanged(reduce) ? reduce.narrow : reduce.data;
  if ((memory == nullptr && reduce.count > 0) || (needs_keep && reduce.keep == nullptr)) {
    return Error{ErrorCode::kInvalid, "start_sum: a null pointer for the memory to sum or to keep"};
  }
  if (!is_exchanged(reduce)) return {};
  if (!exchanges_narrow() || reduce.weights.size() != world_size()) {
    return Error{ErrorCode::kInvalid, "start_sum: weights for " + std::to_string(reduce.weights.size()) +
                                          " ranks; this communicator exchanges gradients of 16 bits among " +
                                          std::to_string(exchanges_narrow() ? world_size() : 0)};
  }
  if (reduce.parts == nullptr && reduce.count > 0 && plane_) {
    return Error{ErrorCode::kInvalid, "start_sum: no memory for the parts of other ranks"};
  }
  return {};
}

Status NcclCommunicator::start_sum(const DeviceReduce& reduce) {
  if (auto valid = check(reduce); !valid) return give_up(valid);
  if (!plane_ && is_own_sum(reduce)) return usable();
  const std::size_t index = measured_.size();
  measured_.push_back(reduce.want_norms);
  // Always comes first: the kept input must be there even if the sum cannot be made.
  auto status = prepare(reduce, index);
  if (status) status = usable();
  if (status) status = queue(reduce, index);
  if (!status) return give_up(status);
  used_.store(true, std::memory_order_relaxed);
  return {};
}

Status NcclCommunicator::prepare(const DeviceReduce& reduce, std::size_t index) {
  const auto stream = preparing_.handle();
  if (auto reserved = kernels_->reserve(index); !reserved) return reserved;
  const auto ordered =
      reduce.ready != nullptr ? order_after(reduce.ready, stream) : order_after_caller(reduce.stream, stream);
  if (!ordered) return ordered;
  if (auto kept = kernels_->keep_narrow(reduce, stream); !kept) return kept;
  if (is_exchanged(reduce)) {
    if (auto measured = kernels_->measure_input(reduce, index, stream); !measured) return measured;
    return prepared_.record(stream);
  }
  if (auto widened = kernels_->widen(reduce, stream); !widened) return widened;
  if (auto prepared = kernels_->prepare(reduce, index, stream); !prepared) return prepared;
  return prepared_.record(stream);
}

Status NcclCommunicator::order_after(device::CudaEvent mark, device::CudaStream stream) const {
  if (mark == nullptr) return {};
  const device::Device::Scope scope(*options_.device);
  const auto& cuda = options_.device->cuda();
  return cuda.check(cuda.stream_wait(stream, mark, 0), "let a stream wait for the program's");
}

Status NcclCommunicator::order_after_caller(device::CudaStream caller, device::CudaStream stream) {
  const auto marked = caller_.record(caller);
  return marked ? caller_.order_before(stream) : marked;
}

Status NcclCommunicator::queue(const DeviceReduce& reduce, std::size_t index) {
  const auto summed = plane_                 ? sum_over_ranks(reduce)
                      : is_exchanged(reduce) ? kernels_->sum_parts(reduce, 0, preparing_.handle())
                                             : Status();
  if (!summed) return summed;
  const auto stream = plane_ ? plane_->stream() : preparing_.handle();
  if (auto measured = kernels_->measure(reduce, index, stream); !measured) return measured;
  if (auto rounded = kernels_->round(reduce, stream); !rounded) return rounded;
  return reduced_.record(stream);
}

Status NcclCommunicator::sum_over_ranks(const DeviceReduce& reduce) {
  if (auto built = plane_->ensure_built(); !built) return built;
  if (auto ordered = prepared_.order_before(plane_->stream()); !ordered) return ordered;
  plane_->comm()->used_by(reduce.stream);
  const auto begun = is_exchanged(reduce) ? exchange(reduce) : plane_->begin_all_reduce(reduce, operation_deadline());
  return begun ? mark_sum(reduce) : begun;
}

// Each rank gets its shard of all ranks, and all get the sum of each shard from the rank that made it.
Status NcclCommunicator::exchange(const DeviceReduce& reduce) {
  const Shards shards{reduce.count, world_size()};
  const auto at = [](void* memory, std::size_t element) {
    return static_cast<std::byte*>(memory) + element * sizeof(std::uint16_t);
  };
  std::vector<DeviceTransfer> parts;
  std::vector<DeviceTransfer> sums;
  const auto add = [](std::vector<DeviceTransfer>& transfers, std::byte* data, std::size_t count, std::uint32_t peer,
                      bool receives) {
    if (count > 0) transfers.push_back({data, count * sizeof(std::uint16_t), peer, receives});
  };
  const std::size_t own = shards.length(rank());
  for (std::uint32_t peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    const std::size_t theirs = shards.length(peer);
    add(parts, at(narrow_input(reduce), shards.begin(peer)), theirs, peer, false);
    add(parts, at(reduce.parts, peer * shards.size()), own, peer, true);
    add(sums, at(reduce.narrow, shards.begin(rank())), own, peer, false);
    add(sums, at(reduce.narrow, shards.begin(peer)), theirs, peer, true);
  }
  if (parts.empty()) return {};
  if (auto begun = plane_->begin_transfers(parts, operation_deadline()); !begun) return begun;
  if (auto summed = kernels_->sum_parts(reduce, rank(), plane_->stream()); !summed) return summed;
  return plane_->begin_transfers(sums, operation_deadline());
}

Status NcclCommunicator::finish_sums(ReduceStats* stats) {
  if (measured_.empty()) return {};
  auto status = usable();
  if (status) status = wait(reduced_);
  if (!status) return give_up(status);
  for (std::size_t i = 0; stats != nullptr && i < measured_.size(); ++i) {
    if (measured_[i]) kernels_->add_norms(i, *stats);
  }
  measured_.clear();
  if (plane_) plane_->comm()->used_by(std::nullopt);
  return {};
}

Status NcclCommunicator::give_up(const Status& status) {
  const auto settled = settle(status);
  measured_.clear();
  if (auto kept = preparing_.synchronize(); !kept) return kept;
  if (plane_) plane_->drain();
  return settled;
}

Status NcclCommunicator::mark_sum(const DeviceReduce& reduce) const {
  if (reduce.finished == nullptr) return {};
  const device::Device::Scope scope(*options_.device);
  const auto& cuda = options_.device->cuda();
  return cuda.check(cuda.event_record(reduce.finished, plane_->stream()), "mark the end of a sum");
}

Status NcclCommunicator::wait(const device::Event& mark) {
  return plane_ ? plane_->wait(mark, operation_deadline()) : mark.synchronize();
}

Status NcclCommunicator::start_device_transfers(std::span<const DeviceTransfer> transfers, void* ready) {
  if (auto status = usable(); !status) return status;
  // Ranks without transfers also take part: the others' transfers may wait for a postponed build, and that needs all
  // ranks.
  if (transfers.empty()) return plane_ ? settle(plane_->ensure_built()) : Status();
  if (!plane_) return settle(Error{ErrorCode::kInvalid, "a world of one has no peer to transfer to"});
  const auto start = [&]() -> Status {
    if (auto built = plane_->ensure_built(); !built) return built;
    if (auto ordered = order_after(ready, plane_->stream()); !ordered) return ordered;
    if (auto begun = plane_->begin_transfers(transfers, operation_deadline()); !begun) return begun;
    return transferred_.record(plane_->stream());
  };
  ET_CHECK(!transferring_, "transfers end before the next ones start");
  transferring_ = true;
  return settle(start());
}

Status NcclCommunicator::finish_device_transfers() {
  if (!std::exchange(transferring_, false)) return {};
  if (auto status = usable(); !status) return settle(status);
  return settle(wait(transferred_));
}

// One build: all ranks agree on the ids, and afterwards on the result.
class Build {
 public:
  Build(NcclCommunicator& communicator, const NcclLibrary& nccl, const NcclOptions& options,
        const RunningGeneration& running, const CancelToken& cancel)
      : host_(communicator.host_plane()),
        options_(options),
        running_(running),
        cancel_(cancel),
        guard_(host_, cancel, options.deadline),
        plane_(std::make_unique<DevicePlane>(nccl, init(), options, host_)) {}

  Result<std::unique_ptr<DevicePlane>> run() {
    const auto parent = possible_parent();
    auto agreed = agree(parent);
    if (!agreed) return reported(agreed.error());
    // A parent that is in use must be idle during a shrink, so the shrink waits for the swap.
    if (agreed->parenthood == NcclComm::Parenthood::kInUse) {
      plane_->shrink_later(parent, running_.left_out);
      return put_off(std::move(*agreed));
    }
    if (agreed->parenthood == NcclComm::Parenthood::kStopped) {
      const auto shrunk = plane_->shrink(parent, running_.left_out);
      if (!shrunk) return reported(shrunk.error());
      if (*shrunk) return std::move(plane_);
    }
    free_stopped();
    if (agreed->build == NcclBuild::kAtSwap) return put_off(std::move(*agreed));
    const auto outcome = build_now();
    if (!outcome) return reported(outcome.error());
    if (*outcome == NcclBuild::kBackground) return std::move(plane_);
    // The ids of an abandoned build cannot be used again.
    agreed = agree(nullptr);
    if (!agreed) return reported(agreed.error());
    return put_off(std::move(*agreed));
  }

 private:
  NcclInit init() const {
    return {.ids = {},
            .rank = host_.rank(),
            .ranks = host_.world_size(),
            .name = options_.job + ":" + std::to_string(host_.generation()),
            .abort_deadline = options_.abort_deadline,
            .step_clock = options_.step_clock,
            .on_broken = options_.on_broken};
  }

  std::shared_ptr<NcclComm> running_comm() const {
    const auto* running = dynamic_cast<const NcclCommunicator*>(running_.communicator.get());
    return running != nullptr ? running->nccl_comm() : nullptr;
  }

  std::shared_ptr<NcclComm> possible_parent() const {
    return options_.build == NcclBuild::kShrink && !running_.left_out.empty() ? running_comm() : nullptr;
  }

  // After a loss, when all have halted: this build may need the memory of what they were in.
  void free_stopped() const {
    const auto before = running_comm();
    if (!before || !before->is_stopped()) return;
    before->abort();
    before->await_end();
  }

  Result<AgreedIds> agree(const std::shared_ptr<NcclComm>& parent) {
    Parent mine;
    if (parent) mine = {parent->parenthood(), running_.communicator->generation()};
    auto agreed = agree_on_ids(host_, options_, mine, cancel_);
    if (agreed) plane_->use_ids(agreed->ids);
    return agreed;
  }

  std::unique_ptr<DevicePlane> put_off(AgreedIds agreed) {
    plane_->hold(std::move(agreed.helper));
    return std::move(plane_);
  }

  // kAtSwap: training stalled on some rank, and all ranks postpone the build.
  Result<NcclBuild> build_now() {
    const auto begun = plane_->begin();
    if (!begun) problem_ = begun.error();
    const auto outcome = build_in_rounds(host_, kRound, [&] { return begun ? look() : BuildState::kFailed; });
    if (!outcome) return outcome.error();
    if (*outcome == BuildState::kFailed) return problem_;
    if (*outcome == BuildState::kBuilt) return NcclBuild::kBackground;
    plane_->drop();
    return NcclBuild::kAtSwap;
  }

  BuildState look() {
    const auto ready = plane_->ready();
    if (!ready) {
      problem_ = ready.error();
      return BuildState::kFailed;
    }
    if (*ready) return BuildState::kBuilt;
    const bool stalls = options_.step_clock && stall_.stands_still(options_.step_clock(), steady_clock::now());
    return stalls ? BuildState::kStalled : BuildState::kBuilding;
  }

  // The others must be notified at once.
  Error reported(const Error& error) {
    host_.abort();
    if (cancel_.cancelled()) return {ErrorCode::kAborted, "the build was cancelled"};
    // Another rank's guard may have checked the same deadline slightly earlier.
    if (guard_.fired() || steady_clock::now() > options_.deadline)
      return {ErrorCode::kTimeout, "NCCL was not built by the deadline: " + error.message};
    return error;
  }

  Communicator& host_;
  const NcclOptions& options_;
  const RunningGeneration& running_;
  const CancelToken& cancel_;
  BuildGuard guard_;
  std::unique_ptr<DevicePlane> plane_;
  StallWatch stall_;
  Error problem_{ErrorCode::kPeerLost, "NCCL could not be built on another rank"};
};

}  // namespace

Result<std::unique_ptr<Communicator>> build_nccl_communicator(std::unique_ptr<Communicator> host_plane,
                                                              const NcclOptions& options, const CancelToken& cancel,
                                                              const RunningGeneration& running) {
  auto kernels = BucketKernels::create(options.device);
  if (!kernels) return kernels.error();
  auto communicator = std::make_unique<NcclCommunicator>(std::move(host_plane), options, std::move(*kernels));
  if (auto made = communicator->make_marks(); !made) return made.error();
  if (communicator->world_size() > 1) {
    const auto nccl = NcclLibrary::get();
    if (!nccl) return nccl.error();
    // Ranks reach the build's agreements minutes apart, so the build's deadline applies to them.
    communicator->host_plane().limit_operations(std::chrono::milliseconds(0));
    auto plane = Build(*communicator, **nccl, options, running, cancel).run();
    if (!plane) return plane.error();
    communicator->host_plane().limit_operations(options.operation_timeout);
    communicator->use(std::move(*plane));
  }
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace elastictrain::comm
