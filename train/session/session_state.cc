// The program's state: what it registers, and where it is.
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/tensor_header.h"
#include "train/session/session_impl.h"

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

void Session::Impl::share_tensor(std::string_view name, void* data, std::string_view dtype,
                                 std::span<const std::uint64_t> shape) {
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = tensor_bytes(name, type);
  add_state(name, {static_cast<std::byte*>(data), bytes}, std::move(type));
}

std::size_t Session::Impl::tensor_bytes(std::string_view name, const state::TensorType& type) const {
  if (const auto bytes = checkpoint::tensor_bytes(type.dtype, type.shape)) return static_cast<std::size_t>(*bytes);
  throw SessionError("tensor \"" + std::string(name) + "\": safetensors has no dtype \"" + type.dtype +
                     "\" of this size; use a name such as F32, BF16, I64 or BOOL");
}

void Session::Impl::share_forward_tensor(std::string_view name, void* data, std::string_view dtype,
                                         std::span<const std::uint64_t> shape) {
  lifecycle_.require(lifecycle_.may_describe(),
                     "share_forward_tensor() after start(); register all state before start()");
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = tensor_bytes(name, type);
  lifecycle_.require(data != nullptr || bytes == 0,
                     "share_forward_tensor() with a null pointer; pass the buffer's address");
  add_state(name, program_.forward.add({static_cast<std::byte*>(data), bytes}), std::move(type));
  program_.copied.emplace(name);
}

void Session::Impl::share_first_tensor(std::string_view name, void* data, std::string_view dtype,
                                       std::span<const std::uint64_t> shape, std::uint64_t every_steps) {
  lifecycle_.require(lifecycle_.may_describe(),
                     "share_first_tensor() after start(); register all state before start()");
  lifecycle_.require(every_steps != 0, "share_first_tensor() every 0 steps; its values travel every 1 or more");
  state::TensorType type{std::string(dtype), {shape.begin(), shape.end()}};
  const auto bytes = tensor_bytes(name, type);
  lifecycle_.require(data != nullptr || bytes == 0,
                     "share_first_tensor() with a null pointer; pass the buffer's address");
  add_state(name, program_.first.add({static_cast<std::byte*>(data), bytes}, every_steps), std::move(type));
  program_.copied.emplace(name);
}

void Session::Impl::share_local_state(std::string_view name, std::span<std::byte> bytes) {
  lifecycle_.require(lifecycle_.may_describe(), "share_local_state() after start(); register all state before start()");
  lifecycle_.require(bytes.data() != nullptr || bytes.empty(),
                     "share_local_state() with a null pointer; pass the buffer's address");
  if (!program_.local.add(name, bytes)) {
    throw SessionError("local state \"" + std::string(name) +
                       "\" is shared twice; give every buffer a name of its own");
  }
}

// Transfers and copies of the state have ended where the program may write it.
void Session::Impl::move_state(std::string_view name, void* data) {
  const auto& runner = worker_->runner;
  const bool may_write = runner.is_open() && runner.step().state_is_free && !runner.in_background();
  lifecycle_.require(!lifecycle_.started || may_write,
                     "move_state() before the step's last all-reduce; state may only be written or moved between that "
                     "and commit_step()");
  if (program_.copied.contains(name)) {
    throw SessionError(
        "move_state(): \"" + std::string(name) +
        "\" was shared with share_forward_tensor() or share_first_tensor(), which use the memory that they "
        "were given until the end; keep it there, and write new values into it");
  }
  auto* const from = program_.buffers.move(name, data);
  if (from == nullptr) {
    throw SessionError("move_state(): no state in host memory is called \"" + std::string(name) +
                       "\"; use the name that it was shared with");
  }
  program_.models.moved(from, static_cast<std::byte*>(data));
}

}  // namespace elastictrain
