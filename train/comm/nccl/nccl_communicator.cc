#include "train/comm/nccl/nccl_communicator.h"

#include <utility>

#include "train/comm/device_interfaces.h"
#include "train/comm/nccl/bucket_kernels.h"
#include "train/comm/nccl/build_guard.h"
#include "train/comm/nccl/build_rounds.h"
#include "train/comm/nccl/device_plane.h"
#include "train/comm/nccl/id_agreement.h"
#include "train/comm/nccl/stall_watch.h"
#include "train/comm/over_communicator.h"

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

  Status make_events();
  void use(std::unique_ptr<DevicePlane> plane) { plane_ = std::move(plane); }
  Communicator& host_plane() { return *host_; }
  std::shared_ptr<NcclComm> nccl_comm() const { return plane_ ? plane_->comm() : nullptr; }

  Capabilities capabilities() const override;
  DeviceSums* device_sums() override { return this; }
  DeviceTransfers* device_transfers() override { return this; }
  Status all_reduce_device(const DeviceReduce& reduce, ReduceStats* stats) override;
  Status start_device_transfers(std::span<const DeviceTransfer> transfers, void* stream) override;
  Status finish_device_transfers() override;
  void abort() noexcept override;

 private:
  // Passes a result through. An error breaks the communicator and takes the caller's memory back from the device.
  Status settle(Status status);
  // The same for the host plane, which refuses some calls without breaking.
  Status passed_on(Status status) override;
  Status usable();
  Status reduce_on_device(const DeviceReduce& reduce);
  Status mark_sum(const DeviceReduce& reduce) const;
  Status wait(const device::Event& mark);
  Deadline operation_deadline() const;

  const NcclOptions options_;
  std::unique_ptr<BucketKernels> kernels_;
  std::unique_ptr<DevicePlane> plane_;  // null in a world of one
  device::Event prepared_;
  device::Event reduced_;
  device::Event transferred_;
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

Status NcclCommunicator::make_events() {
  for (auto* event : {&prepared_, &reduced_, &transferred_}) {
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

Status NcclCommunicator::all_reduce_device(const DeviceReduce& reduce, ReduceStats* stats) {
  const bool needs_keep = reduce.input == DeviceReduce::Input::kKept;
  if ((reduce.data == nullptr && reduce.count > 0) || (needs_keep && reduce.keep == nullptr)) {
    return settle(Error{ErrorCode::kInvalid, "all_reduce_device: a null pointer for the memory to sum or to keep"});
  }
  // Always comes first: the kept input must be there even if the sum cannot be made.
  auto status = kernels_->prepare(reduce);
  if (status) status = prepared_.record(reduce.stream);
  if (!status) return settle(status);
  status = usable();
  if (status && plane_) status = reduce_on_device(reduce);
  if (status && !plane_) {
    status = kernels_->measure(reduce, reduce.stream);
    if (status) status = reduced_.record(reduce.stream);
    if (status) status = wait(reduced_);
  }
  if (!status) {
    const auto settled = settle(status);
    if (auto kept = prepared_.synchronize(); !kept) return kept;
    if (plane_) plane_->drain();
    return settled;
  }
  used_.store(true, std::memory_order_relaxed);
  if (reduce.want_norms && stats != nullptr) kernels_->read_norms(*stats);
  return {};
}

Status NcclCommunicator::reduce_on_device(const DeviceReduce& reduce) {
  if (auto built = plane_->ensure_built(); !built) return built;
  const auto stream = plane_->stream();
  if (auto ordered = prepared_.order_before(stream); !ordered) return ordered;
  if (auto begun = plane_->begin_all_reduce(reduce, operation_deadline()); !begun) return begun;
  if (auto marked = mark_sum(reduce); !marked) return marked;
  if (auto measured = kernels_->measure(reduce, stream); !measured) return measured;
  if (auto marked = reduced_.record(stream); !marked) return marked;
  return wait(reduced_);
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

Status NcclCommunicator::start_device_transfers(std::span<const DeviceTransfer> transfers, void* stream) {
  if (auto status = usable(); !status) return status;
  // Ranks without transfers also take part: the others' transfers may wait for a postponed build, and that needs all
  // ranks.
  if (transfers.empty()) return plane_ ? settle(plane_->ensure_built()) : Status();
  if (!plane_) return settle(Error{ErrorCode::kInvalid, "a world of one has no peer to transfer to"});
  const auto start = [&]() -> Status {
    if (auto built = plane_->ensure_built(); !built) return built;
    if (auto marked = prepared_.record(stream); !marked) return marked;
    if (auto ordered = prepared_.order_before(plane_->stream()); !ordered) return ordered;
    if (auto begun = plane_->begin_transfers(transfers, operation_deadline()); !begun) return begun;
    return transferred_.record(plane_->stream());
  };
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
            .on_wedged = options_.on_wedged,
            .may_be_parent = options_.build == NcclBuild::kShrink};
  }

  std::shared_ptr<NcclComm> possible_parent() const {
    if (options_.build != NcclBuild::kShrink || running_.left_out.empty()) return nullptr;
    const auto* running = dynamic_cast<const NcclCommunicator*>(running_.communicator.get());
    return running != nullptr ? running->nccl_comm() : nullptr;
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
  if (auto made = communicator->make_events(); !made) return made.error();
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
