// The C API over Session.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"
#include "train/c_api/guard.h"
#include "train/c_api/memory_access.h"

namespace {

using elastictrain::Session;
using elastictrain::c_api::Calling;
using elastictrain::c_api::complain;
using elastictrain::c_api::guarded;
using elastictrain::c_api::last_error;
using elastictrain::c_api::null_argument;
using elastictrain::c_api::read_struct;
using elastictrain::c_api::to_cpp;
using elastictrain::c_api::unknown_struct;
using elastictrain::c_api::wait_of;
using elastictrain::c_api::write_struct;

et_batch to_c(const elastictrain::Batch& batch) {
  et_batch out = ET_BATCH_INIT;
  out.step = batch.step;
  out.epoch = batch.epoch;
  out.samples = batch.samples.empty() ? nullptr : batch.samples.data();
  out.local_samples = batch.local_samples;
  out.global_samples = batch.global_samples;
  out.first_of_epoch = batch.first_of_epoch ? 1 : 0;
  return out;
}

elastictrain::Operation to_cpp(et_operation operation) {
  return static_cast<elastictrain::Operation>(operation);
}
static_assert(static_cast<int>(elastictrain::Operation::kProduct) == ET_PRODUCT);

bool is_known(et_type type, et_operation operation) {
  return type >= ET_FLOAT32 && type <= ET_BOOL && operation >= ET_SUM && operation <= ET_PRODUCT;
}

et_status unknown_reduction() noexcept {
  return complain(ET_ERROR_INVALID, "this library does not know this et_type or et_operation; install a newer one");
}

et_step_report to_c(const elastictrain::StepReport& report) {
  return {sizeof(et_step_report), report.loss, report.samples, report.gradient_norm, report.slowest_compute_us};
}

void call_back(et_change_callback callback, void* user_data, const elastictrain::Change& change) {
  const et_change out = {sizeof(et_change),    change.generation,          change.rank,
                         change.world_size,    change.previous_world_size, change.joined_now ? 1U : 0U,
                         change.reason.c_str()};
  callback(&out, user_data);
}

}  // namespace

extern "C" {

const char* et_version(void) {
  return elastictrain::version();
}
const char* et_last_error(void) {
  return last_error.c_str();
}

void et_ignore_notices(int64_t worker) {
  Session::ignore_notices(worker);
}

et_status et_session_create(et_session** session) {
  if (session == nullptr) return null_argument();
  *session = nullptr;
  return guarded([&] { *session = new et_session; });
}

void et_session_destroy(et_session* session) {
  if (session != nullptr && session->callbacks > 0) {
    constexpr const char* kRefused =
        "et_session_destroy() in a callback of the session is refused: destroy it after the call that made the "
        "callback";
    (void)std::fprintf(stderr, "elastictrain: %s\n", kRefused);
    (void)complain(ET_ERROR_INVALID, kRefused);
    return;
  }
  delete session;
}

et_status et_share_state(et_session* session, const char* name, void* data, size_t bytes) {
  if (session == nullptr || name == nullptr) return null_argument();
  return guarded([&] { session->session.share_state(name, data, bytes); });
}

et_status et_share_model(et_session* session, const char* name, float* data, size_t count) {
  if (session == nullptr || name == nullptr) return null_argument();
  return guarded([&] { session->session.share_model(name, data, count); });
}

et_status et_use_device(et_session* session, int* ordinal) {
  if (session == nullptr || ordinal == nullptr) return null_argument();
  return guarded([&] { *ordinal = session->session.use_device(*ordinal); });
}

et_status et_use_stream_order(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.use_stream_order(); });
}

et_status et_reserve_gradient_copies(et_session* session, size_t bytes, void* device_memory, int* needed) {
  if (session == nullptr || needed == nullptr) return null_argument();
  return guarded([&] { *needed = session->session.reserve_gradient_copies(bytes, device_memory) ? 1 : 0; });
}

et_status et_share_device_state(et_session* session, const char* name, void* device_data, size_t bytes) {
  if (session == nullptr || name == nullptr) return null_argument();
  return guarded([&] { session->session.share_device_state(name, device_data, bytes); });
}

et_status et_share_tensor(et_session* session, const char* name, void* data, const char* dtype, const uint64_t* shape,
                          uint32_t dimensions) {
  if (session == nullptr || name == nullptr || dtype == nullptr || (shape == nullptr && dimensions != 0)) {
    return null_argument();
  }
  return guarded([&] { session->session.share_tensor(name, data, dtype, {shape, dimensions}); });
}

et_status et_share_tensor_through(et_session* session, const char* name, const char* dtype, const uint64_t* shape,
                                  uint32_t dimensions, et_memory_read read, et_memory_write write, void* user_data) {
  if (session == nullptr || name == nullptr || dtype == nullptr || (shape == nullptr && dimensions != 0) ||
      read == nullptr || write == nullptr) {
    return null_argument();
  }
  return guarded([&] {
    session->session.share_tensor_through(elastictrain::c_api::memory_access(read, write, user_data), name, dtype,
                                          {shape, dimensions});
  });
}

et_status et_share_forward_tensor(et_session* session, const char* name, void* data, const char* dtype,
                                  const uint64_t* shape, uint32_t dimensions) {
  if (session == nullptr || name == nullptr || dtype == nullptr || (shape == nullptr && dimensions != 0)) {
    return null_argument();
  }
  return guarded([&] { session->session.share_forward_tensor(name, data, dtype, {shape, dimensions}); });
}

et_status et_share_first_tensor(et_session* session, const char* name, void* data, const char* dtype,
                                const uint64_t* shape, uint32_t dimensions, uint64_t every_steps) {
  if (session == nullptr || name == nullptr || dtype == nullptr || (shape == nullptr && dimensions != 0)) {
    return null_argument();
  }
  return guarded([&] { session->session.share_first_tensor(name, data, dtype, {shape, dimensions}, every_steps); });
}

et_status et_share_local_state(et_session* session, const char* name, void* data, size_t bytes) {
  if (session == nullptr || name == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.share_local_state(name, data, bytes); });
}

et_status et_move_state(et_session* session, const char* name, void* data) {
  if (session == nullptr || name == nullptr || data == nullptr) return null_argument();
  return guarded([&] { session->session.move_state(name, data); });
}

et_status et_share_early(et_session* session, const char* name, const void* data, size_t bytes) {
  if (session == nullptr || name == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.share_early(name, data, bytes); });
}

et_status et_early(const et_session* session, const char* name, void* data, size_t* bytes) {
  if (session == nullptr || name == nullptr || bytes == nullptr || (data == nullptr && *bytes != 0)) {
    return null_argument();
  }
  const auto value = session->session.early(name);
  if (!value) return complain(ET_ERROR_INVALID, "no early value has this name; share it before et_start()");
  if (value->size() <= *bytes && !value->empty()) std::memcpy(data, value->data(), value->size());
  *bytes = value->size();
  return ET_OK;
}

et_status et_set_data(et_session* session, const et_data_options* options) {
  if (session == nullptr || options == nullptr) return null_argument();
  et_data_options known = ET_DATA_OPTIONS_INIT;
  if (!read_struct(options, known)) return unknown_struct();
  return guarded([&] {
    session->session.set_data({.sample_count = known.sample_count,
                               .epochs = known.epochs,
                               .seed = known.seed,
                               .batch = known.batch,
                               .shuffle = known.shuffle != 0,
                               .max_steps = known.max_steps,
                               .min_local_samples = known.min_local_samples,
                               .drop_last = known.drop_last != 0,
                               .batches_per_step = std::max(1U, known.batches_per_step),
                               .batch_of_all = known.batch_of_all != 0});
  });
}

et_status et_on_change(et_session* session, et_change_callback callback, void* user_data) {
  if (session == nullptr) return null_argument();
  return guarded([&] {
    if (callback == nullptr) return session->session.on_change(nullptr);
    session->session.on_change([=](const elastictrain::Change& change) {
      const Calling calling(session);
      call_back(callback, user_data, change);
    });
  });
}

namespace {

std::vector<std::pair<std::string, std::vector<std::byte>>> named_values(const et_named* values, size_t count) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> found;
  for (const auto& value : std::span(values, count)) {
    const auto* data = static_cast<const std::byte*>(value.data);
    found.emplace_back(value.name, std::vector<std::byte>(data, data + value.bytes));
  }
  return found;
}

void ask(et_other_layout_callback callback, void* user_data, elastictrain::OtherLayout& other) {
  std::vector<et_named> state;
  for (const auto& part : other.state) state.push_back({part.name.c_str(), part.bytes.data(), part.bytes.size()});
  et_other_layout out{};
  out.size = sizeof out;
  out.manifest = other.manifest.data(), out.manifest_bytes = other.manifest.size();
  out.header = other.header.data(), out.header_bytes = other.header.size();
  out.data = other.data.data(), out.data_bytes = other.data.size();
  out.state = state.data(), out.state_count = state.size();
  out.samples_used = other.samples_used, out.epoch = other.epoch, out.cursor = other.cursor;
  out.refusal = "the program did not take it";  // an exception of another language ends the callback early
  callback(&out, user_data);
  other.refusal = out.refusal == nullptr ? "" : out.refusal;
  if (!other.refusal.empty()) return;
  other.samples_used = out.samples_used, other.epoch = out.epoch, other.cursor = out.cursor;
  for (size_t i = 0; i < out.returned_count; ++i) {
    other.returned.emplace_back(out.returned[2 * i], out.returned[2 * i + 1]);
  }
  other.early = named_values(out.early, out.early_count);
  other.attachments = named_values(out.attachments, out.attachment_count);
}

}  // namespace

et_status et_on_other_layout(et_session* session, const char* division, et_other_layout_callback callback,
                             void* user_data) {
  if (session == nullptr || division == nullptr || callback == nullptr) return null_argument();
  return guarded([&] {
    session->session.on_other_layout(division, [=](elastictrain::OtherLayout& other) {
      const Calling calling(session);
      ask(callback, user_data, other);
    });
  });
}

et_status et_step_hooks(et_session* session, et_before_step before, et_after_step after, void* user_data) {
  if (session == nullptr) return null_argument();
  return guarded([&] {
    std::function<void(const elastictrain::Batch&)> first;
    std::function<void(const elastictrain::StepReport&)> last;
    if (before != nullptr) {
      first = [=](const elastictrain::Batch& batch) {
        const Calling calling(session);
        const et_batch out = to_c(batch);
        before(&out, user_data);
      };
    }
    if (after != nullptr) {
      last = [=](const elastictrain::StepReport& report) {
        const Calling calling(session);
        const et_step_report out = to_c(report);
        after(&out, user_data);
      };
    }
    session->session.step_hooks(std::move(first), std::move(last));
  });
}

et_status et_await_start(et_session* session, uint64_t* epoch) {
  if (session == nullptr || epoch == nullptr) return null_argument();
  return guarded([&] { *epoch = session->session.await_start(*epoch); });
}

et_status et_start(et_session* session, int* started) {
  if (session == nullptr || started == nullptr) return null_argument();
  *started = 0;
  return guarded([&] { *started = session->session.start() ? 1 : 0; });
}

et_status et_next_batch(et_session* session, et_batch* batch, int* has_batch) {
  if (session == nullptr || batch == nullptr || has_batch == nullptr) return null_argument();
  *has_batch = 0;
  if (batch->size < sizeof(size_t)) return unknown_struct();
  return guarded([&] {
    const auto next = session->session.next_batch();
    if (!next) return;
    write_struct(to_c(*next), batch);
    *has_batch = 1;
  });
}

et_status et_look_ahead(const et_session* session, uint32_t batches, uint64_t* samples, size_t* sample_count,
                        uint64_t* batch_sizes, uint32_t* batch_count) {
  if (session == nullptr || sample_count == nullptr || batch_count == nullptr ||
      (samples == nullptr && *sample_count != 0) || (batch_sizes == nullptr && batches != 0)) {
    return null_argument();
  }
  *batch_count = 0;
  return guarded([&] {
    const auto ahead = session->session.look_ahead(batches);
    const std::size_t room = std::exchange(*sample_count, 0);
    for (const auto size : ahead.batch_sizes) {
      const std::size_t listed = ahead.samples.empty() ? 0 : static_cast<std::size_t>(size);
      if (*sample_count + listed > room) break;
      std::copy_n(ahead.samples.data() + *sample_count, listed, samples + *sample_count);
      *sample_count += listed;
      batch_sizes[(*batch_count)++] = size;
    }
  });
}

et_status et_all_reduce(et_session* session, float* gradient, size_t count) {
  if (session == nullptr || (gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce(gradient, count); });
}

et_status et_all_reduce_async(et_session* session, float* gradient, size_t count) {
  if (session == nullptr || (gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_async(gradient, count); });
}

et_status et_all_reduce_device(et_session* session, float* device_gradient, size_t count, void* stream) {
  if (session == nullptr || (device_gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_device(device_gradient, count, stream); });
}

et_status et_all_reduce_device_async(et_session* session, float* device_gradient, size_t count, void* stream) {
  if (session == nullptr || (device_gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_device_async(device_gradient, count, stream); });
}

et_status et_all_reduce_typed(et_session* session, void* gradient, size_t count, et_type type) {
  if (session == nullptr || (gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce(gradient, count, to_cpp(type)); });
}

et_status et_all_reduce_typed_async(et_session* session, void* gradient, size_t count, et_type type) {
  if (session == nullptr || (gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_async(gradient, count, to_cpp(type)); });
}

et_status et_all_reduce_device_typed(et_session* session, void* device_gradient, size_t count, et_type type,
                                     void* stream) {
  if (session == nullptr || (device_gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_device(device_gradient, count, to_cpp(type), stream); });
}

et_status et_all_reduce_device_typed_async(et_session* session, void* device_gradient, size_t count, et_type type,
                                           void* stream) {
  if (session == nullptr || (device_gradient == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.all_reduce_device_async(device_gradient, count, to_cpp(type), stream); });
}

et_status et_wait_all_reduce(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.wait_all_reduce(); });
}

et_status et_commit_step(et_session* session, const et_step_metrics* metrics) {
  if (session == nullptr) return null_argument();
  et_step_metrics known = ET_STEP_METRICS_INIT;
  if (metrics != nullptr && !read_struct(metrics, known)) return unknown_struct();
  return guarded([&] { session->session.commit_step({.loss = known.loss}); });
}

et_status et_end_data(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.end_data(); });
}

et_status et_phase(et_session* session, const char* name) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.phase(name == nullptr ? "" : name); });
}

et_status et_last_step(const et_session* session, et_step_report* report) {
  if (session == nullptr || report == nullptr) return null_argument();
  return write_struct(to_c(session->session.last_step()), report) ? ET_OK : unknown_struct();
}

et_status et_sum(et_session* session, float* data, size_t count) {
  if (session == nullptr || (data == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.sum(data, count); });
}

et_status et_broadcast(et_session* session, void* data, size_t bytes) {
  if (session == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.broadcast(data, bytes); });
}

et_status et_reduce_values(et_session* session, void* data, size_t count, et_type type, et_operation operation) {
  if (session == nullptr || (data == nullptr && count != 0)) return null_argument();
  if (!is_known(type, operation)) return unknown_reduction();
  return guarded([&] { session->session.reduce_values(data, count, to_cpp(type), to_cpp(operation)); });
}

et_status et_broadcast_from(et_session* session, void* data, size_t bytes, uint32_t root) {
  if (session == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.broadcast_from(data, bytes, root); });
}

et_status et_broadcast_into(et_session* session, const void* data, size_t bytes, uint32_t root, void* received) {
  if (session == nullptr || (bytes != 0 && (data == nullptr || received == nullptr))) return null_argument();
  return guarded([&] { session->session.broadcast_into(data, bytes, root, received); });
}

et_status et_all_gather(et_session* session, const void* data, size_t bytes, void* gathered) {
  if (session == nullptr || (bytes != 0 && (data == nullptr || gathered == nullptr))) return null_argument();
  return guarded([&] { session->session.all_gather(data, bytes, gathered); });
}

et_status et_agree(et_session* session, const void* data, size_t bytes, int* equal) {
  if (session == nullptr || equal == nullptr || (bytes != 0 && data == nullptr)) return null_argument();
  return guarded([&] { session->session.agree(data, bytes, equal); });
}

et_status et_reduce_scatter(et_session* session, const void* data, size_t count_per_rank, et_type type,
                            et_operation operation, void* result) {
  if (session == nullptr || (count_per_rank != 0 && (data == nullptr || result == nullptr))) return null_argument();
  if (!is_known(type, operation)) return unknown_reduction();
  return guarded(
      [&] { session->session.reduce_scatter(data, count_per_rank, to_cpp(type), to_cpp(operation), result); });
}

et_status et_barrier(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.barrier(); });
}

et_status et_reduce_values_in(et_session* session, uint64_t group, void* data, size_t count, et_type type,
                              et_operation operation) {
  if (session == nullptr || (data == nullptr && count != 0)) return null_argument();
  if (!is_known(type, operation)) return unknown_reduction();
  return guarded([&] { session->session.reduce_values_in(group, data, count, to_cpp(type), to_cpp(operation)); });
}

et_status et_all_gather_in(et_session* session, uint64_t group, const void* data, size_t bytes, void* gathered,
                           uint32_t* size) {
  const bool has_no_room = bytes != 0 && (data == nullptr || gathered == nullptr);
  if (session == nullptr || size == nullptr || has_no_room) return null_argument();
  return guarded([&] { *size = session->session.all_gather_in(group, data, bytes, gathered); });
}

et_status et_broadcast_in(et_session* session, uint64_t group, void* data, size_t bytes, uint32_t root) {
  if (session == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.broadcast_in(group, data, bytes, root); });
}

et_status et_reduce_values_async(et_session* session, const char* key, void* data, size_t count, et_type type,
                                 et_operation operation) {
  if (session == nullptr || key == nullptr || (data == nullptr && count != 0)) return null_argument();
  if (!is_known(type, operation)) return unknown_reduction();
  return guarded([&] { session->session.reduce_values_async(key, data, count, to_cpp(type), to_cpp(operation)); });
}

et_status et_broadcast_async(et_session* session, const char* key, void* data, size_t bytes, uint32_t root) {
  if (session == nullptr || key == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.broadcast_async(key, data, bytes, root); });
}

et_status et_step_memory(et_session* session, size_t bytes, void** memory) {
  if (session == nullptr || memory == nullptr) return null_argument();
  return guarded([&] { *memory = session->session.step_memory(bytes); });
}

et_status et_enable_store(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.enable_store(); });
}

et_status et_save(et_session* session, const char* name, const void* data, size_t bytes, uint64_t version) {
  if (session == nullptr || name == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.save(name, data, bytes, version); });
}

et_status et_request(et_session* session, uint32_t rank, const char* name, void* data, size_t bytes,
                     uint64_t* version) {
  if (session == nullptr || name == nullptr || version == nullptr || (data == nullptr && bytes != 0)) {
    return null_argument();
  }
  return guarded([&] {
    const auto reply = session->session.request(rank, name, *version, data, bytes);
    *version = reply.found ? reply.version : 0;
    if (!reply.problem.empty()) complain(ET_OK, reply.problem.c_str());
  });
}

et_status et_peer_latencies_us(et_session* session, double* latencies, size_t count) {
  if (session == nullptr || latencies == nullptr) return null_argument();
  return guarded([&] {
    const auto measured = session->session.peer_latencies_us();
    std::copy_n(measured.begin(), std::min(count, measured.size()), latencies);
  });
}

et_status et_minimum_spanning_tree(et_session* session, uint32_t* edges, size_t* count) {
  if (session == nullptr || edges == nullptr || count == nullptr) return null_argument();
  return guarded([&] {
    const auto tree = session->session.minimum_spanning_tree();
    const std::size_t fit = std::min(*count / 2, tree.size());
    for (std::size_t i = 0; i < fit; ++i) {
      edges[2 * i] = tree[i].from;
      edges[2 * i + 1] = tree[i].to;
    }
    *count = 2 * fit;
  });
}

et_status et_get_monitors(const et_session* session, et_monitors* monitors) {
  if (session == nullptr || monitors == nullptr) return null_argument();
  const auto now = session->session.monitors();
  et_monitors out = ET_MONITORS_INIT;
  out.has_noise_scale = now.has_noise_scale ? 1 : 0;
  out.slowest_rank = now.slowest_rank;
  out.noise_scale = now.noise_scale;
  out.gradient_norm = now.gradient_norm;
  out.gradient_variance = now.gradient_variance;
  out.slowest_compute_us = now.slowest_compute_us;
  out.step_us = now.step_us;
  out.data_wait_us = now.data_wait_us;
  out.compute_us = now.compute_us;
  out.communicate_us = now.communicate_us;
  out.update_us = now.update_us;
  out.bytes_sent = now.bytes_sent;
  out.bytes_received = now.bytes_received;
  out.bytes_shared = now.bytes_shared;
  return write_struct(out, monitors) ? ET_OK : unknown_struct();
}

et_status et_get_peer_monitors(const et_session* session, uint64_t* bytes_sent, uint64_t* bytes_received,
                               double* round_trip_us, size_t count) {
  if (session == nullptr) return null_argument();
  return guarded([&] {
    const auto peers = session->session.peer_monitors();
    for (std::size_t rank = 0; rank < std::min(count, peers.size()); ++rank) {
      if (bytes_sent != nullptr) bytes_sent[rank] = peers[rank].bytes_sent;
      if (bytes_received != nullptr) bytes_received[rank] = peers[rank].bytes_received;
      if (round_trip_us != nullptr) round_trip_us[rank] = peers[rank].round_trip_us;
    }
  });
}

et_status et_measure_gradient_variance(et_session* session, uint64_t every_steps) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.measure_gradient_variance(every_steps); });
}

et_status et_report_halves(et_session* session, double first_square, double second_square) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.report_halves(first_square, second_square); });
}

et_status et_request_resize(et_session* session, uint32_t workers) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.request_resize(workers); });
}

et_status et_request_batch(et_session* session, uint32_t per_worker) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.request_batch(per_worker); });
}

et_status et_request_learning_rate_factor(et_session* session, double factor) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.request_learning_rate_factor(factor); });
}

et_status et_request_synchronization(et_session* session, et_synchronization synchronization) {
  if (session == nullptr) return null_argument();
  return guarded(
      [&] { session->session.request_synchronization(static_cast<elastictrain::Synchronization>(synchronization)); });
}

et_status et_request_topology(et_session* session, const char* name) {
  if (session == nullptr || name == nullptr) return null_argument();
  return guarded([&] { session->session.request_topology(name); });
}

et_status et_step_based_schedule(const char* schedule, uint64_t step, uint32_t* workers) {
  if (schedule == nullptr || workers == nullptr) return null_argument();
  return guarded([&] { *workers = Session::step_based_schedule(schedule, step); });
}

et_status et_device_memory(et_session* session, uint64_t total_bytes, uint64_t free_bytes) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.device_memory(total_bytes, free_bytes); });
}

et_status et_note(et_session* session, const char* key, const char* value) {
  if (session == nullptr || key == nullptr || value == nullptr) return null_argument();
  return guarded([&] { session->session.note(key, value); });
}

et_status et_boundary(et_session* session, uint32_t* parts) {
  if (session == nullptr || parts == nullptr) return null_argument();
  return guarded([&] {
    const auto brings = session->session.boundary();
    *parts = 0;
    if (brings.checkpoint) *parts |= ET_BOUNDARY_CHECKPOINT;
    if (brings.change) *parts |= ET_BOUNDARY_CHANGE;
    if (brings.stop) *parts |= ET_BOUNDARY_STOP;
    if (brings.end) *parts |= ET_BOUNDARY_END;
  });
}

et_status et_disagree(et_session* session, const char* reason) {
  if (session == nullptr || reason == nullptr) return null_argument();
  return guarded([&] { session->session.disagree(reason); });
}

et_status et_decline(et_session* session, const char* reason) {
  if (session == nullptr || reason == nullptr) return null_argument();
  return guarded([&] { session->session.decline(reason); });
}

et_status et_attach(et_session* session, const char* name, const void* data, size_t bytes) {
  if (session == nullptr || name == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.attach(name, data, bytes); });
}

et_status et_attachment(const et_session* session, const char* name, void* data, size_t* bytes, int* found) {
  if (session == nullptr || name == nullptr || bytes == nullptr || found == nullptr ||
      (data == nullptr && *bytes != 0)) {
    return null_argument();
  }
  const auto value = session->session.attachment(name);
  *found = value ? 1 : 0;
  if (!value) return ET_OK;
  if (value->size() <= *bytes && !value->empty()) std::memcpy(data, value->data(), value->size());
  *bytes = value->size();
  return ET_OK;
}

et_status et_board_put(et_session* session, const char* key, const void* value, size_t bytes) {
  if (session == nullptr || key == nullptr || (value == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.board_put(key, value, bytes); });
}

et_status et_board_get(et_session* session, const char* key, uint64_t wait_ms, void* value, size_t* bytes, int* found) {
  if (session == nullptr || key == nullptr || bytes == nullptr || found == nullptr ||
      (value == nullptr && *bytes != 0)) {
    return null_argument();
  }
  *found = 0;
  return guarded([&] {
    const auto kept = session->session.board_get(key, wait_of(wait_ms));
    if (!kept) return;
    *found = 1;
    if (kept->size() <= *bytes && !kept->empty()) std::memcpy(value, kept->data(), kept->size());
    *bytes = kept->size();
  });
}

et_status et_finish(et_session* session) {
  if (session == nullptr) return null_argument();
  return guarded([&] { session->session.finish(); });
}

uint32_t et_rank(const et_session* session) {
  return session == nullptr ? 0 : session->session.rank();
}
uint32_t et_world_size(const et_session* session) {
  return session == nullptr ? 0 : session->session.world_size();
}
uint32_t et_local_rank(const et_session* session) {
  return session == nullptr ? 0 : session->session.local_rank();
}
uint64_t et_generation(const et_session* session) {
  return session == nullptr ? 0 : session->session.generation();
}
uint64_t et_worker_id(const et_session* session) {
  return session == nullptr ? 0 : session->session.worker_id();
}
uint64_t et_committed_step(const et_session* session) {
  return session == nullptr ? 0 : session->session.committed_step();
}
uint64_t et_half_batch(const et_session* session) {
  return session == nullptr ? 0 : session->session.half_batch();
}
double et_learning_rate_factor(const et_session* session) {
  return session == nullptr ? 1.0 : session->session.learning_rate_factor();
}
int et_launched(const et_session* session) {
  return session != nullptr && session->session.launched() ? 1 : 0;
}
et_outcome et_outcome_of(const et_session* session) {
  return session == nullptr ? ET_OUTCOME_STOPPED : static_cast<et_outcome>(session->session.outcome());
}
et_synchronization et_synchronization_of(const et_session* session) {
  return session == nullptr ? ET_SYNCHRONIZATION_GRADIENTS
                            : static_cast<et_synchronization>(session->session.synchronization());
}

}  // extern "C"
