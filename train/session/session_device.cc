// The program's calls about GPUs. The sums are in device_gradients.h.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "train/session/device_build.h"
#include "train/session/session_impl.h"
#include "train/session/sizes.h"
#include "train/session/solo_communicator.h"

namespace elastictrain {
namespace {

constexpr int kExitWedged = 70;  // EX_SOFTWARE

// A communicator that cannot be aborted holds the device. Only a new process is free of it; the agent starts one.
void end_process(const std::string& why) {
  std::fprintf(stderr, "elastictrain: this worker exits and another replaces it: %s\n", why.c_str());
  std::_Exit(kExitWedged);
}

std::uint32_t visible_devices() {
  const auto count = device::Device::count();
  if (!count) throw SessionError(count.error().message);
  if (*count == 0) throw SessionError("this process sees no GPU; check CUDA_VISIBLE_DEVICES and nvidia-smi");
  return static_cast<std::uint32_t>(*count);
}

// No generation has two members in one slot, so none has two on one GPU unless a host has more slots than GPUs. NCCL
// refuses two ranks on one GPU of a host, or on MIG instances of one; the workers beyond the number of devices report
// another host id.
void separate_workers(const session::Environment& environment, std::uint32_t devices) {
  const std::uint32_t layer = environment.slot / devices;
  const std::string host = environment.host_key + "-" + std::to_string(layer);
  if (layer != 0) ::setenv("NCCL_HOSTID", host.c_str(), 0);
}

}  // namespace

int Session::Impl::use_device(int ordinal) {
  lifecycle_.require(lifecycle_.may_describe(), "use_device() after start(); choose the device before start()");
  lifecycle_.require(!program_.device, "use_device() was called twice; a worker trains on one device");
  lifecycle_.require(program_.buffers.buffers().empty(), "use_device() after share_state(); choose the device first");
  const std::uint32_t devices = visible_devices();
  separate_workers(program_.environment, devices);
  if (ordinal < 0) ordinal = static_cast<int>(program_.environment.slot % devices);
  auto side = session::DeviceSide::open(ordinal);
  if (!side) throw SessionError(side.error().message);
  program_.device = std::move(*side);
  if (plane_) plane_->use_device(program_.device->device(), &end_process);
  return ordinal;
}

void Session::Impl::use_stream_order() {
  lifecycle_.require(lifecycle_.may_describe(), "use_stream_order() after start(); say it before start()");
  lifecycle_.require(program_.device != nullptr, "use_stream_order() without a device; call use_device() first");
  program_.device->use_stream_order();
}

void Session::Impl::share_device_state(std::string_view name, void* data, std::size_t bytes) {
  lifecycle_.require(lifecycle_.may_describe(),
                     "share_device_state() after start(); register all state before start()");
  lifecycle_.require(program_.device != nullptr, "share_device_state() without a device; call use_device() first");
  lifecycle_.require(data != nullptr || bytes == 0,
                     "share_device_state() with a null pointer; pass the buffer's address");
  if (!program_.buffers.add(name, data, bytes, &program_.device->port())) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
}

void Session::Impl::reach_device_alone() {
  auto reached = session::reach_device(std::make_unique<session::SoloCommunicator>(0),
                                       {.device = program_.device->device()}, comm::CancelToken());
  if (!reached) lifecycle_.fail(reached.error().message);
  worker_->seating.seat().communicator = std::move(*reached);
}

void Session::Impl::all_reduce_device(float* gradient, std::size_t count, void* stream) {
  require_step("all_reduce_device() outside a step; call next_batch() first");
  lifecycle_.require(program_.device != nullptr,
                     "all_reduce_device() without a device; call use_device() before start()");
  session::bytes_of("all_reduce_device()", count, sizeof(float));
  settle_background();
  reduce_device(worker_->runner.add(gradient, count), stream, false);
}

void Session::Impl::all_reduce_device_typed(void* gradient, std::size_t count, DataType type, void* stream,
                                            bool in_background) {
  require_step("all_reduce_device() outside a step; call next_batch() first");
  lifecycle_.require(program_.device != nullptr,
                     "all_reduce_device() without a device; call use_device() before start()");
  if (!in_background) settle_background();
  reduce_device(add_narrow(gradient, count, type), stream, in_background);
}

void Session::Impl::reduce_device(session::Bucket& bucket, void* stream, bool in_background) {
  auto& worker = *worker_;
  worker.device.mark_input(bucket, stream);
  if (in_background) {
    worker.runner.submit(bucket);
    return send_first_state(true);
  }
  worker.device.check(worker.device.await_input(bucket));
  worker.measurements.clock().collective_begins(worker.device.input_time(bucket));
  settle(worker.runner.reduce(bucket), true);
  send_first_state(false);
}

void Session::Impl::all_reduce_device_async(float* gradient, std::size_t count, void* stream) {
  require_step("all_reduce_device_async() outside a step; call next_batch() first");
  lifecycle_.require(program_.device != nullptr,
                     "all_reduce_device_async() without a device; call use_device() before start()");
  session::bytes_of("all_reduce_device_async()", count, sizeof(float));
  reduce_device(worker_->runner.add(gradient, count), stream, true);
}

}  // namespace elastictrain
