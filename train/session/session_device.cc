// GPUs: state and gradients in device memory. The lane and all agreement stay on the host's data plane; a device's sum
// follows it within the same step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/comm/device_interfaces.h"
#include "train/session/device_build.h"
#include "train/session/device_transfer.h"
#include "train/session/session_impl.h"
#include "train/session/solo_communicator.h"

namespace elastictrain {
namespace {

constexpr int kExitWedged = 70;  // EX_SOFTWARE

// A communicator that cannot be aborted holds the device. Only a new process is free of it; the agent starts one.
void end_process(const std::string& why) {
  std::fprintf(stderr, "elastictrain: this worker exits and another replaces it: %s\n", why.c_str());
  std::_Exit(kExitWedged);
}

}  // namespace

// No generation has two members in one slot, so none has two on one GPU unless a host has more slots than GPUs. NCCL
// refuses two ranks on one GPU of a host; the workers beyond the number of GPUs report another host id.
int Session::Impl::device_of_slot() {
  const auto count = device::Device::count();
  if (!count) throw SessionError(count.error().message);
  if (*count == 0) throw SessionError("this process sees no GPU; check CUDA_VISIBLE_DEVICES and nvidia-smi");
  const auto devices = static_cast<std::uint32_t>(*count);
  const std::uint32_t layer = environment_.slot / devices;
  const std::string host = environment_.host_key + "-" + std::to_string(layer);
  if (layer != 0) ::setenv("NCCL_HOSTID", host.c_str(), 0);
  return static_cast<int>(environment_.slot % devices);
}

int Session::Impl::use_device(int ordinal) {
  require(!started_, "use_device() after start(); choose the device before start()");
  require(!device_, "use_device() was called twice; a worker trains on one device");
  require(buffers_.buffers().empty(), "use_device() after share_state(); choose the device first");
  if (ordinal < 0) ordinal = device_of_slot();
  auto side = session::DeviceSide::open(ordinal);
  if (!side) throw SessionError(side.error().message);
  device_ = std::move(*side);
  if (plane_) plane_->use_device(device_->device(), &end_process);
  return ordinal;
}

void Session::Impl::share_device_state(std::string_view name, void* data, std::size_t bytes) {
  require(!started_, "share_device_state() after start(); register all state before start()");
  require(device_ != nullptr, "share_device_state() without a device; call use_device() first");
  require(data != nullptr || bytes == 0, "share_device_state() with a null pointer; pass the buffer's address");
  if (!buffers_.add(name, data, bytes, &device_->port())) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
}

void Session::Impl::reach_device_alone() {
  auto reached = session::reach_device(std::make_unique<session::SoloCommunicator>(0), {.device = device_->device()},
                                       comm::CancelToken());
  if (!reached) fail(reached.error().message);
  seat_.communicator = std::move(*reached);
}

session::Bucket& Session::Impl::add_device_bucket(float* data, std::size_t count, void* stream) {
  auto& bucket = add_bucket(data, count);
  bucket.on_device = true;
  bucket.stream = stream;
  check_device(device_->mark_input(bucket.index, stream));
  return bucket;
}

void Session::Impl::all_reduce_device(float* gradient, std::size_t count, void* stream) {
  require(step_.has_value(), "all_reduce_device() outside a step; call next_batch() first");
  require(device_ != nullptr, "all_reduce_device() without a device; call use_device() before start()");
  if (async_pending_) wait_all_reduce();
  auto& bucket = add_device_bucket(gradient, count, stream);
  check_device(await_input(bucket));
  clock_.collective_begins(input_time(bucket));
  settle_buckets(step_->discarded ? Status() : reduce_bucket(bucket));
}

void Session::Impl::all_reduce_device_async(float* gradient, std::size_t count, void* stream) {
  require(step_.has_value(), "all_reduce_device_async() outside a step; call next_batch() first");
  require(device_ != nullptr, "all_reduce_device_async() without a device; call use_device() before start()");
  submit(add_device_bucket(gradient, count, stream));
}

void Session::Impl::check_device(const Status& status) {
  if (!status) fail(status.error().message);
}

// Outside of the collective: the work that the program has queued is its computation, and a worker that hangs in it is
// not waiting for others.
Status Session::Impl::await_input(const session::Bucket& bucket) {
  if (!bucket.on_device) return {};
  const Status status = device_->await_input(bucket.index);
  if (status) return {};
  return Error{ErrorCode::kInvalid, status.error().message};
}

// A time that the device cannot report without waiting is the time at which the host sees it.
session::Clock::time_point Session::Impl::input_time(const session::Bucket& bucket) {
  const auto now = session::Clock::now();
  return bucket.on_device ? std::min(now, device_->input_time(bucket.index).value_or(now)) : now;
}

session::Clock::time_point Session::Impl::sum_time(const session::Bucket& bucket) {
  const auto now = session::Clock::now();
  return bucket.on_device ? std::min(now, device_->sum_time(bucket.index).value_or(now)) : now;
}

Status Session::Impl::reduce_device_gradient(session::Bucket& bucket) {
  using Input = comm::DeviceReduce::Input;
  comm::DeviceReduce reduce{.data = bucket.data,
                            .count = bucket.count,
                            .stream = bucket.stream,
                            .want_norms = step_->wants_norm,
                            .finished = device_->end_mark(bucket.index)};
  const std::uint64_t mine = step_->my_count;
  if (mine == 0) {
    reduce.input = Input::kNothing;
  } else if (bucket.copied || keeps_inputs()) {
    const auto keep = device_->keep(bucket.index, bucket.count);
    if (!keep) return Error{ErrorCode::kInvalid, keep.error().message};
    reduce.keep = *keep;
    reduce.input = std::exchange(bucket.copied, true) ? Input::kKept : Input::kKeep;
  }
  if (mine != 0) reduce.scale = my_weight();
  comm::ReduceStats stats;
  comm::DeviceSums* const sums = seat_.communicator->device_sums();
  ET_CHECK(sums != nullptr, "a session with a device has a data plane that sums its memory");
  const Status status = sums->all_reduce_device(reduce, &stats);
  step_->local_square_sum += stats.local_square_sum;
  step_->reduced_square_sum += stats.reduced_square_sum;
  return status;
}

void Session::Impl::clear_gradient(session::Bucket& bucket) {
  if (bucket.on_device) return check_device(device_->fill_zero(bucket.data, bucket.count, bucket.stream));
  std::fill_n(bucket.data, bucket.count, 0.0F);
}

// The writes of the program's update are part of the state once its stream has reached this point.
void Session::Impl::mark_device_state() {
  if (!device_) return;
  const auto& buckets = step_->buckets;
  const auto last = std::find_if(buckets.rbegin(), buckets.rend(), [](const auto& bucket) { return bucket.on_device; });
  if (last != buckets.rend()) check_device(device_->state_written(last->stream));
}

// State between devices goes through the new generation's communicator, before its first sum. If that fails, so does
// the sum.
void Session::Impl::start_device_transfers(const protocol::GenerationPlan& plan) {
  if (!moves_state_on_devices() || session::joiner_ranks(plan).empty()) return;
  const auto transfers = session::device_transfers(buffers_, plan, seat_.rank);
  (void)seat_.communicator->device_transfers()->start_device_transfers(transfers, device_->state_stream());
}

bool Session::Impl::moves_state_on_devices() const {
  return device_ != nullptr && seat_.communicator->device_transfers() != nullptr;
}

session::DeviceState Session::Impl::device_state() const {
  return moves_state_on_devices() ? session::DeviceState::kElsewhere : session::DeviceState::kThroughHost;
}

}  // namespace elastictrain
