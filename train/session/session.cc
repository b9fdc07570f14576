#include "elastictrain/session.hpp"

#include <utility>

#include "train/session/session_impl.h"

namespace elastictrain {

Session::Session() : impl_(std::make_unique<Impl>()) {}
// A child leaves everything as it is: the threads behind it are its parent's.
Session::~Session() {
  if (impl_->is_inherited()) static_cast<void>(impl_.release());
}

void Session::share_state(std::string_view name, void* data, std::size_t bytes) {
  impl_->share_state(name, data, bytes);
}
void Session::share_tensor(std::string_view name, void* data, std::string_view dtype,
                           std::span<const std::uint64_t> shape) {
  impl_->share_tensor(name, data, dtype, shape);
}
void Session::share_forward_tensor(std::string_view name, void* data, std::string_view dtype,
                                   std::span<const std::uint64_t> shape) {
  impl_->share_forward_tensor(name, data, dtype, shape);
}
void Session::share_first_tensor(std::string_view name, void* data, std::string_view dtype,
                                 std::span<const std::uint64_t> shape, std::uint64_t every_steps) {
  impl_->share_first_tensor(name, data, dtype, shape, every_steps);
}
void Session::share_local_state(std::string_view name, void* data, std::size_t bytes) {
  impl_->share_local_state(name, {static_cast<std::byte*>(data), bytes});
}
void Session::move_state(std::string_view name, void* data) {
  impl_->move_state(name, data);
}
void Session::share_model(std::string_view name, float* data, std::size_t count) {
  impl_->share_model(name, data, count);
}
void Session::share_early(std::string_view name, const void* data, std::size_t bytes) {
  impl_->share_early(name, data, bytes);
}
std::optional<std::span<const std::byte>> Session::early(std::string_view name) const {
  const auto* value = impl_->early(name);
  if (value == nullptr) return std::nullopt;
  return std::span<const std::byte>(*value);
}
void Session::set_data(const DataOptions& options) {
  impl_->set_data(options);
}
void Session::on_change(std::function<void(const Change&)> callback) {
  impl_->on_change(std::move(callback));
}
std::uint64_t Session::await_start(std::uint64_t epoch) {
  return impl_->await_start(epoch);
}
bool Session::start() {
  return impl_->start();
}
std::optional<Batch> Session::next_batch() {
  auto batch = impl_->next_batch();
  if (batch) impl_->before_step(*batch);
  return batch;
}
void Session::step_hooks(std::function<void(const Batch&)> before, std::function<void(const StepReport&)> after) {
  impl_->step_hooks(std::move(before), std::move(after));
}
void Session::all_reduce(float* gradient, std::size_t count) {
  impl_->all_reduce(gradient, count);
}
void Session::all_reduce_async(float* gradient, std::size_t count) {
  impl_->all_reduce_async(gradient, count);
}
void Session::wait_all_reduce() {
  impl_->wait_all_reduce();
}
int Session::use_device(int ordinal) {
  return impl_->use_device(ordinal);
}
void Session::use_stream_order() {
  impl_->use_stream_order();
}
void Session::share_device_state(std::string_view name, void* device_data, std::size_t bytes) {
  impl_->share_device_state(name, device_data, bytes);
}
void Session::all_reduce_device(float* device_gradient, std::size_t count, void* stream) {
  impl_->all_reduce_device(device_gradient, count, stream);
}
void Session::all_reduce_device_async(float* device_gradient, std::size_t count, void* stream) {
  impl_->all_reduce_device_async(device_gradient, count, stream);
}
void Session::all_reduce(void* gradient, std::size_t count, DataType type) {
  impl_->all_reduce_typed(gradient, count, type, false);
}
void Session::all_reduce_async(void* gradient, std::size_t count, DataType type) {
  impl_->all_reduce_typed(gradient, count, type, true);
}
void Session::all_reduce_device(void* device_gradient, std::size_t count, DataType type, void* stream) {
  impl_->all_reduce_device_typed(device_gradient, count, type, stream, false);
}
void Session::all_reduce_device_async(void* device_gradient, std::size_t count, DataType type, void* stream) {
  impl_->all_reduce_device_typed(device_gradient, count, type, stream, true);
}
void Session::end_data() {
  impl_->end_data();
}
void Session::phase(std::string_view name) {
  impl_->phase(name);
}
void Session::commit_step(const StepMetrics& metrics) {
  impl_->commit_step(metrics);
}

std::uint32_t Session::rank() const {
  return impl_->view().rank;
}
std::uint32_t Session::world_size() const {
  return impl_->view().world_size;
}
std::uint32_t Session::local_rank() const {
  return impl_->view().local_rank;
}
std::uint64_t Session::generation() const {
  return impl_->view().generation;
}
std::uint64_t Session::worker_id() const {
  return impl_->worker_id().value;
}
std::uint64_t Session::committed_step() const {
  return impl_->progress().committed_step;
}
double Session::learning_rate_factor() const {
  return impl_->progress().learning_rate.factor();
}
bool Session::launched() const {
  return impl_->launched();
}
Outcome Session::outcome() const {
  return impl_->outcome();
}
StepReport Session::last_step() const {
  return impl_->view().last_step;
}
void Session::note(std::string_view key, std::string_view value) {
  impl_->note(key, value);
}
Boundary Session::boundary() {
  return impl_->boundary();
}
void Session::disagree(std::string_view reason) {
  impl_->disagree(reason);
}
void Session::decline(std::string_view reason) {
  impl_->decline(reason);
}
void Session::attach(std::string_view name, const void* data, std::size_t bytes) {
  impl_->attach(name, data, bytes);
}
std::optional<std::span<const std::byte>> Session::attachment(std::string_view name) const {
  const auto* value = impl_->attachment(name);
  if (value == nullptr) return std::nullopt;
  return std::span<const std::byte>(*value);
}
void Session::board_put(std::string_view key, const void* value, std::size_t bytes) {
  impl_->board_put(key, {static_cast<const char*>(value), bytes});
}
std::optional<std::vector<std::byte>> Session::board_get(std::string_view key, std::chrono::milliseconds wait) {
  const auto value = impl_->board_get(key, wait);
  if (!value) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(*value));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}
void Session::sum(float* data, std::size_t count) {
  impl_->sum(data, count);
}
void Session::broadcast(void* data, std::size_t bytes) {
  impl_->broadcast(data, bytes);
}
void Session::broadcast_from(void* data, std::size_t bytes, std::uint32_t root) {
  impl_->broadcast_from(data, bytes, root);
}

void Session::broadcast_into(const void* data, std::size_t bytes, std::uint32_t root, void* received) {
  impl_->broadcast_into(data, bytes, root, received);
}
void Session::reduce_values(void* data, std::size_t count, DataType type, Operation operation) {
  impl_->reduce_values(data, count, type, operation);
}
void Session::all_gather(const void* data, std::size_t bytes, void* gathered) {
  impl_->all_gather(data, bytes, gathered);
}
void Session::reduce_scatter(const void* data, std::size_t count_per_rank, DataType type, Operation operation,
                             void* result) {
  impl_->reduce_scatter(data, count_per_rank, type, operation, result);
}
void Session::agree(const void* data, std::size_t bytes, int* equal) {
  impl_->agree(data, bytes, equal);
}
void* Session::step_memory(std::size_t bytes) {
  return impl_->step_memory(bytes);
}
void Session::barrier() {
  impl_->barrier();
}
void Session::reduce_values_in(std::uint64_t group, void* data, std::size_t count, DataType type, Operation operation) {
  impl_->reduce_values_in(group, data, count, type, operation);
}
std::uint32_t Session::all_gather_in(std::uint64_t group, const void* data, std::size_t bytes, void* gathered) {
  return impl_->all_gather_in(group, data, bytes, gathered);
}
void Session::broadcast_in(std::uint64_t group, void* data, std::size_t bytes, std::uint32_t root) {
  impl_->broadcast_in(group, data, bytes, root);
}
void Session::reduce_values_async(std::string_view key, void* data, std::size_t count, DataType type,
                                  Operation operation) {
  impl_->reduce_values_async(key, data, count, type, operation);
}
void Session::broadcast_async(std::string_view key, void* data, std::size_t bytes, std::uint32_t root) {
  impl_->broadcast_async(key, data, bytes, root);
}
LookAhead Session::look_ahead(std::uint32_t batches) const {
  return impl_->look_ahead(batches);
}
RunMonitors Session::monitors() const {
  return impl_->run_monitors();
}
std::vector<PeerMonitors> Session::peer_monitors() const {
  return impl_->peer_monitors();
}
void Session::measure_gradient_variance(std::uint64_t every_steps) {
  impl_->measure_gradient_variance(every_steps);
}
std::uint64_t Session::half_batch() const {
  return impl_->half_batch();
}
void Session::report_halves(double first_square, double second_square) {
  impl_->report_halves(first_square, second_square);
}
Synchronization Session::synchronization() const {
  return impl_->synchronization();
}
void Session::finish() {
  impl_->finish();
}

const char* version() {
  return ELASTICTRAIN_VERSION;
}

}  // namespace elastictrain
