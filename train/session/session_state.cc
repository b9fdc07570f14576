#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/tensor_header.h"
#include "train/session/communicator_builder.h"
#include "train/session/session_communicators.h"
#include "train/session/session_impl.h"

// The program's state: what it registers, and where it is.

namespace elastictrain {

void Session::Impl::add_state(std::string_view name, std::span<std::byte> bytes,
                              std::optional<state::TensorType> type) {
  lifecycle_.require(lifecycle_.may_describe(), "share_state() after start(); register all state before start()");
  lifecycle_.require(bytes.data() != nullptr || bytes.empty(),
                     "share_state() with a null pointer; pass the buffer's address");
  if (!program_.buffers.add(name, bytes.data(), bytes.size(), nullptr, std::move(type))) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
  program_.models.add_state(bytes);
}

void Session::share_tensor(std::string_view name, void* data, std::string_view dtype,
                           std::span<const std::uint64_t> shape) {
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = impl_->tensor_bytes(name, type);
  impl_->add_state(name, {static_cast<std::byte*>(data), bytes}, std::move(type));
}

void Session::share_tensor_through(MemoryAccess access, std::string_view name, std::string_view dtype,
                                   std::span<const std::uint64_t> shape) {
  impl_->require_before_start("share_tensor_through() after start(); register all state before start()");
  impl_->require(!impl_->program_.device,
                 "share_tensor_through() after use_device(): state in that device's memory is shared with "
                 "share_device_state()");
  impl_->require(access.read && access.write, "share_tensor_through() without a function; it needs both");
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = impl_->tensor_bytes(name, type);
  auto& port = impl_->program_.ports.emplace_back(std::move(access));
  if (!impl_->program_.buffers.add(name, port.begin(), bytes, &port, std::move(type))) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
}

std::size_t Session::Impl::tensor_bytes(std::string_view name, const state::TensorType& type) const {
  if (const auto bytes = checkpoint::tensor_bytes(type.dtype, type.shape)) return static_cast<std::size_t>(*bytes);
  throw SessionError("tensor \"" + std::string(name) + "\": safetensors has no dtype \"" + type.dtype +
                     "\" of this size; use a name such as F32, BF16, I64 or BOOL");
}

void Session::share_forward_tensor(std::string_view name, void* data, std::string_view dtype,
                                   std::span<const std::uint64_t> shape) {
  impl_->require_before_start("share_forward_tensor() after start(); register all state before start()");
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = impl_->tensor_bytes(name, type);
  impl_->require(data != nullptr || bytes == 0,
                 "share_forward_tensor() with a null pointer; pass the buffer's address");
  impl_->add_state(name, impl_->program_.forward.add({static_cast<std::byte*>(data), bytes}), std::move(type));
  impl_->program_.copied.emplace(name);
}

void Session::share_first_tensor(std::string_view name, void* data, std::string_view dtype,
                                 std::span<const std::uint64_t> shape, std::uint64_t every_steps) {
  impl_->require_before_start("share_first_tensor() after start(); register all state before start()");
  impl_->require(every_steps != 0, "share_first_tensor() every 0 steps; its values travel every 1 or more");
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = impl_->tensor_bytes(name, type);
  impl_->require(data != nullptr || bytes == 0, "share_first_tensor() with a null pointer; pass the buffer's address");
  impl_->add_state(name, impl_->program_.first.add({static_cast<std::byte*>(data), bytes}, every_steps),
                   std::move(type));
  impl_->program_.copied.emplace(name);
}

void Session::share_local_state(std::string_view name, void* data, std::size_t bytes) {
  impl_->require_before_start("share_local_state() after start(); register all state before start()");
  impl_->require(data != nullptr || bytes == 0, "share_local_state() with a null pointer; pass the buffer's address");
  if (!impl_->program_.local.add(name, {static_cast<std::byte*>(data), bytes})) {
    throw SessionError("local state \"" + std::string(name) +
                       "\" is shared twice; give every buffer a name of its own");
  }
}

// Transfers and copies of the state have ended where the program may write it.
void Session::move_state(std::string_view name, void* data) {
  const auto& runner = impl_->worker_->runner;
  const bool may_write = runner.is_open() && runner.step().state_is_free && !runner.in_background();
  impl_->require(!impl_->lifecycle_.started || may_write,
                 "move_state() before the step's last all-reduce; state may only be written or moved between that "
                 "and commit_step()");
  if (impl_->program_.copied.contains(name)) {
    throw SessionError(
        "move_state(): \"" + std::string(name) +
        "\" was shared with share_forward_tensor() or share_first_tensor(), which use the memory that they "
        "were given until the end; keep it there, and write new values into it");
  }
  auto* const from = impl_->program_.buffers.move(name, data);
  if (from == nullptr) {
    throw SessionError("move_state(): no state in host memory is called \"" + std::string(name) +
                       "\"; use the name that it was shared with");
  }
  impl_->program_.models.moved(from, static_cast<std::byte*>(data));
}

// The program's calls about GPUs. The sums are in gradients.h.
namespace {

constexpr int kExitBroken = 70;  // EX_SOFTWARE

// The state in the device's memory is lost to this process; the agent starts another one.
void end_process(const std::string& why) {
  std::fprintf(stderr, "elastictrain: this worker exits and another replaces it: %s\n", why.c_str());
  std::_Exit(kExitBroken);
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

int Session::use_device(int ordinal) {
  impl_->require_before_start("use_device() after start(); choose the device before start()");
  impl_->require(!impl_->program_.device, "use_device() was called twice; a worker trains on one device");
  impl_->require(impl_->program_.buffers.buffers().empty(),
                 "use_device() after share_state(); choose the device first");
  const std::uint32_t devices = visible_devices();
  separate_workers(impl_->program_.environment, devices);
  if (ordinal < 0) ordinal = static_cast<int>(impl_->program_.environment.slot % devices);
  auto side = session::DeviceSide::open(ordinal);
  if (!side) throw SessionError(side.error().message);
  impl_->program_.device = std::move(*side);
  if (impl_->plane_) {
    auto& made = *impl_->program_.device;
    impl_->plane_->use_device(
        made.device(), [&made] { return made.make_room(); }, &end_process);
  }
  return ordinal;
}

void Session::use_stream_order() {
  impl_->require_before_start("use_stream_order() after start(); say it before start()");
  impl_->require(impl_->program_.device != nullptr, "use_stream_order() without a device; call use_device() first");
  impl_->program_.device->use_stream_order();
}

bool Session::reserve_gradient_copies(std::size_t bytes, void* device_memory) {
  impl_->require_before_start("reserve_gradient_copies() after start(); ask for the memory before start()");
  impl_->require(impl_->program_.device != nullptr,
                 "reserve_gradient_copies() without a device; call use_device() first");
  const auto& environment = impl_->program_.environment;
  if (!impl_->plane_ || !environment.keep_gradients) return false;
  const bool has_peers = environment.world_size != 1;
  if (bytes == 0) return has_peers;
  auto& device = *impl_->program_.device;
  device.plan_copies(bytes, device_memory);
  if (!has_peers) return false;
  if (auto made = device.make_room(); !made) {
    throw SessionError(
        made.error().message +
        ". Make the model or the batch smaller, or set failures.on_failure = \"stop\", which needs none");
  }
  return true;
}

void Session::share_device_state(std::string_view name, void* data, std::size_t bytes) {
  impl_->require_before_start("share_device_state() after start(); register all state before start()");
  impl_->require(impl_->program_.device != nullptr, "share_device_state() without a device; call use_device() first");
  impl_->require(data != nullptr || bytes == 0, "share_device_state() with a null pointer; pass the buffer's address");
  if (!impl_->program_.buffers.add(name, data, bytes, &impl_->program_.device->port())) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
}

void Session::Impl::reach_device_alone() {
  auto reached = session::reach_device(std::make_unique<session::SoloCommunicator>(0),
                                       {.device = program_.device->device()}, comm::CancelToken());
  if (!reached) lifecycle_.fail(reached.error().message);
  worker_->exchange.assignment().communicator = std::move(*reached);
}

void Session::all_reduce_device(float* gradient, std::size_t count, void* stream) {
  impl_->require_step("all_reduce_device() outside a step; call next_batch() first");
  impl_->require(impl_->program_.device != nullptr,
                 "all_reduce_device() without a device; call use_device() before start()");
  session::bytes_of("all_reduce_device()", count, sizeof(float));
  impl_->settle_background();
  impl_->reduce_device(impl_->worker_->runner.add(gradient, count), stream, false);
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

void Session::all_reduce_device_async(float* gradient, std::size_t count, void* stream) {
  impl_->require_step("all_reduce_device_async() outside a step; call next_batch() first");
  impl_->require(impl_->program_.device != nullptr,
                 "all_reduce_device_async() without a device; call use_device() before start()");
  session::bytes_of("all_reduce_device_async()", count, sizeof(float));
  impl_->reduce_device(impl_->worker_->runner.add(gradient, count), stream, true);
}

void Session::all_reduce_device(void* gradient, std::size_t count, DataType type, void* stream) {
  impl_->all_reduce_device_typed(gradient, count, type, stream, false);
}

void Session::all_reduce_device_async(void* gradient, std::size_t count, DataType type, void* stream) {
  impl_->all_reduce_device_typed(gradient, count, type, stream, true);
}

}  // namespace elastictrain
