// The C API over Session: exceptions become statuses with a message; structs are copied by the size that the caller
// knows.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"

struct et_session {
  elastictrain::Session session;
};

namespace {

using elastictrain::Session;

thread_local std::string last_error;

et_status complain(et_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

template <class Function>
et_status guarded(Function function) noexcept {
  try {
    function();
    return ET_OK;
  } catch (const elastictrain::SessionError& error) {
    return complain(ET_ERROR_SESSION, error.what());
  } catch (const std::exception& error) {
    return complain(ET_ERROR_INTERNAL, error.what());
  } catch (...) {
    return complain(ET_ERROR_INTERNAL, "a callback threw an exception that is not a std::exception");
  }
}

et_status null_argument() noexcept {
  return complain(ET_ERROR_INVALID, "a required pointer is NULL");
}

// Reads the caller's struct, with defaults for fields that an older caller does not know. A newer caller is accepted if
// the fields that this library does not know are zero.
template <class Struct>
bool read_struct(const Struct* from, Struct& into) noexcept {
  const std::size_t size = from->size;
  if (size < sizeof(std::size_t)) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(Struct)) {
    const bool zero = std::all_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte == 0; });
    if (!zero) return false;
  }
  std::memcpy(&into, from, std::min(size, sizeof(Struct)));
  return true;
}

// Never writes beyond the caller's struct.
template <class Struct>
bool write_struct(Struct from, Struct* into) noexcept {
  from.size = into->size;
  if (from.size < sizeof(std::size_t)) return false;
  std::memcpy(into, &from, std::min(from.size, sizeof(Struct)));
  return true;
}

et_status unknown_struct() noexcept {
  return complain(ET_ERROR_INVALID,
                  "a struct's size is not set, or it uses fields that this library does not know; "
                  "start from the _INIT macro, or install a newer library");
}

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

et_status et_session_create(et_session** session) {
  if (session == nullptr) return null_argument();
  *session = nullptr;
  return guarded([&] { *session = new et_session; });
}

void et_session_destroy(et_session* session) {
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

et_status et_share_device_state(et_session* session, const char* name, void* device_data, size_t bytes) {
  if (session == nullptr || name == nullptr) return null_argument();
  return guarded([&] { session->session.share_device_state(name, device_data, bytes); });
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
                               .max_steps = known.max_steps});
  });
}

et_status et_on_change(et_session* session, et_change_callback callback, void* user_data) {
  if (session == nullptr) return null_argument();
  return guarded([&] {
    if (callback == nullptr) return session->session.on_change(nullptr);
    session->session.on_change([=](const elastictrain::Change& change) { call_back(callback, user_data, change); });
  });
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

et_status et_last_step(const et_session* session, et_step_report* report) {
  if (session == nullptr || report == nullptr) return null_argument();
  const auto last = session->session.last_step();
  const et_step_report out = {sizeof(et_step_report), last.loss, last.samples, last.gradient_norm,
                              last.slowest_compute_us};
  return write_struct(out, report) ? ET_OK : unknown_struct();
}

et_status et_sum(et_session* session, float* data, size_t count) {
  if (session == nullptr || (data == nullptr && count != 0)) return null_argument();
  return guarded([&] { session->session.sum(data, count); });
}

et_status et_broadcast(et_session* session, void* data, size_t bytes) {
  if (session == nullptr || (data == nullptr && bytes != 0)) return null_argument();
  return guarded([&] { session->session.broadcast(data, bytes); });
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

et_status et_note(et_session* session, const char* key, const char* value) {
  if (session == nullptr || key == nullptr || value == nullptr) return null_argument();
  return guarded([&] { session->session.note(key, value); });
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
