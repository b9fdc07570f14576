#include "train/comm/nccl/device_plane.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace elastictrain::comm {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::microseconds kSleep{30};
constexpr std::chrono::milliseconds kLookEvery{1};  // interval of checks of the host plane and of NCCL's state
// A peer may have sent all its data before it was lost; its last bytes may still be in transfer.
constexpr std::chrono::milliseconds kGraceAfterLoss{100};
constexpr std::chrono::milliseconds kShrinkRound{1};  // training waits for it

// A wait spins only while a short one may end: the thread that gives work to the device needs the core.
void pause(steady_clock::duration waited) {
  if (waited >= kSpin) std::this_thread::sleep_for(kSleep);
}

}  // namespace

DevicePlane::DevicePlane(const NcclLibrary& nccl, NcclInit init, NcclOptions options, Communicator& host_plane)
    : nccl_(nccl), init_(std::move(init)), options_(std::move(options)), host_plane_(host_plane) {}

DevicePlane::~DevicePlane() {
  if (comm_) comm_->abort();
}

Status DevicePlane::begin() {
  auto begun = NcclComm::begin(nccl_, options_.device, init_);
  if (!begun) return begun.error();
  const std::lock_guard lock(mutex_);
  comm_ = std::move(*begun);
  return {};
}

Result<bool> DevicePlane::ready() {
  const NcclCode state = comm_->state();
  if (state == kNcclSuccess) return true;
  if (state == kNcclInProgress) return false;
  return comm_->error(state, "build " + init_.name);
}

Status DevicePlane::await_ready(Deadline deadline, const std::string& doing) {
  const auto since = steady_clock::now();
  for (;;) {
    const NcclCode state = comm_->state();
    if (state == kNcclSuccess) return {};
    if (state != kNcclInProgress) return comm_->error(state, doing);
    if (auto status = check_plane(); !status) return status;
    const auto now = steady_clock::now();
    if (now > deadline) {
      return Error{ErrorCode::kTimeout, "NCCL did not " + doing + " in time; a rank is missing or its network cannot " +
                                            "be reached. NCCL_DEBUG=INFO shows its progress"};
    }
    pause(now - since);
  }
}

BuildState DevicePlane::look(Deadline deadline) {
  if (aborted_ || steady_clock::now() > deadline) return BuildState::kFailed;
  const auto built = ready();
  if (!built) return BuildState::kFailed;
  return *built ? BuildState::kBuilt : BuildState::kBuilding;
}

Result<bool> DevicePlane::shrink(const std::shared_ptr<NcclComm>& parent, const std::vector<std::uint32_t>& left_out) {
  const auto deadline = steady_clock::now() + options_.shrink_limit;
  auto begun = NcclComm::begin_shrunk(nccl_, options_.device, init_, parent, {left_out.begin(), left_out.end()});
  if (begun) {
    const std::lock_guard lock(mutex_);
    comm_ = *begun;
  }
  const auto outcome =
      build_in_rounds(host_plane_, kShrinkRound, [&] { return begun.ok() ? look(deadline) : BuildState::kFailed; });
  if (!outcome) return outcome.error();
  if (*outcome == BuildState::kBuilt) return true;
  drop();
  parent->abort();
  parent->await_end();
  return false;
}

Status DevicePlane::ensure_built() {
  if (aborted_) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  if (comm_) return {};
  if (const auto parent = std::exchange(parent_, nullptr)) {
    const auto shrunk = shrink(parent, left_out_);
    if (!shrunk) return shrunk.error();
    if (*shrunk) {
      helper_ = UniqueIdHelper();
      return {};
    }
  }
  auto built = begin();
  if (built) built = await_ready(steady_clock::now() + options_.at_swap_limit, "build " + init_.name);
  helper_ = UniqueIdHelper();
  return built;
}

Status DevicePlane::begin_all_reduce(const DeviceReduce& reduce, Deadline deadline) {
  const std::string doing = "start an all-reduce of " + std::to_string(reduce.count) + " elements";
  auto called = comm_->call(doing, [&](NcclHandle handle) {
    return nccl_.all_reduce(reduce.data, reduce.data, reduce.count, kNcclFloat32, kNcclSum, handle, comm_->stream());
  });
  if (!called) return called;
  return await_ready(deadline, doing);
}

Status DevicePlane::begin_transfers(std::span<const DeviceTransfer> transfers, Deadline deadline) {
  const std::string doing = "start " + std::to_string(transfers.size()) + " transfers";
  auto called = comm_->call(doing, [&](NcclHandle handle) {
    NcclCode code = nccl_.group_start();
    for (const auto& piece : transfers) {
      if (code != kNcclSuccess && code != kNcclInProgress) break;
      const int peer = static_cast<int>(piece.peer);
      code = piece.receives ? nccl_.receive(piece.data, piece.bytes, kNcclUint8, peer, handle, comm_->stream())
                            : nccl_.send(piece.data, piece.bytes, kNcclUint8, peer, handle, comm_->stream());
    }
    const NcclCode ended = nccl_.group_end();
    return code == kNcclSuccess || code == kNcclInProgress ? ended : code;
  });
  if (!called) return called;
  return await_ready(deadline, doing);
}

Status DevicePlane::check_plane() {
  if (aborted_) return Error{ErrorCode::kAborted, "the operation was aborted"};
  const auto peers = host_plane_.check_peers();
  if (peers) {
    lost_since_ = Deadline::max();
    return {};
  }
  const auto now = steady_clock::now();
  lost_since_ = std::min(lost_since_, now);
  return now - lost_since_ > kGraceAfterLoss ? peers : Status();
}

Status DevicePlane::check_wait(Deadline deadline) {
  if (auto peers = check_plane(); !peers) return peers;
  if (comm_) {
    const NcclCode state = comm_->state();
    if (state != kNcclSuccess && state != kNcclInProgress) return comm_->error(state, "finish an operation");
  }
  if (steady_clock::now() > deadline) {
    return Error{ErrorCode::kTimeout, "a device operation was not finished within the operation timeout"};
  }
  return {};
}

Status DevicePlane::wait(const device::Event& mark, Deadline deadline) {
  const auto since = steady_clock::now();
  auto looked = since;
  for (;;) {
    const auto code = mark.query();
    if (code == device::kCudaSuccess) return check_end();
    if (code != device::kCudaNotReady) {
      const auto problem = options_.device->cuda().error(code, "wait for the device");
      if (device::is_sticky(code) && options_.on_broken) options_.on_broken(problem.message);
      return problem;
    }
    if (aborted_) return Error{ErrorCode::kAborted, "the operation was aborted"};
    const auto now = steady_clock::now();
    if (now - looked > kLookEvery) {
      looked = now;
      if (auto status = check_wait(deadline); !status) return status;
    }
    pause(now - since);
  }
}

// An operation that was ended from outside also reaches its mark.
Status DevicePlane::check_end() {
  if (aborted_) return Error{ErrorCode::kAborted, "the operation was aborted"};
  const NcclCode state = comm_ ? comm_->state() : kNcclSuccess;
  return state == kNcclSuccess ? Status() : comm_->error(state, "finish an operation");
}

void DevicePlane::request_abort() noexcept {
  aborted_ = true;
  const std::lock_guard lock(mutex_);
  if (comm_) comm_->stop();
}

std::shared_ptr<NcclComm> DevicePlane::comm() {
  const std::lock_guard lock(mutex_);
  return comm_;
}

void DevicePlane::stop() {
  const auto ending = comm();
  if (!ending) return;
  ending->stop();
  ending->await_end();
}

void DevicePlane::drain() {
  const auto ending = comm();
  if (ending && ending->await_end()) ending->drain();
}

void DevicePlane::drop() {
  std::shared_ptr<NcclComm> comm;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (!comm) return;
  comm->abort();
  comm->await_end();
}

void DevicePlane::close(std::unique_ptr<Communicator> host_plane) {
  const std::lock_guard lock(mutex_);
  if (comm_) comm_->close(std::move(host_plane));
}

}  // namespace elastictrain::comm
