// Purpose: the wire format of messages in msgpack: the order of every message's fields, and each field's type.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <msgpack.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/member_count.h"
#include "supervisor/protocol/step_metrics.h"

// The wire order of every message's fields, in one place. A struct is sent as a msgpack array in this order:
// append only; a member that is missing here is an error of the compiler. A shorter array from an older peer leaves the
// rest at its default, surplus elements of a longer one are ignored; a change to the meaning of an existing field
// raises limits::kProtocolVersion instead.

namespace elastictrain::protocol {

#define ET_FIELDS(Type, ...)                                                                        \
  template <class T>                                                                                \
  requires std::same_as<std::remove_const_t<T>, Type>                                               \
  constexpr auto fields([[maybe_unused]] T& m) {                                                    \
    return std::tie(__VA_ARGS__);                                                                   \
  }                                                                                                 \
  static_assert(std::tuple_size_v<decltype(fields(std::declval<Type&>()))> == member_count<Type>(), \
                "every member of " #Type " must be in its field list");

ET_FIELDS(Endpoint, m.host_key, m.addresses, m.port, m.unix_name, m.mpi_rank)
ET_FIELDS(Member, m.worker, m.rank, m.local_rank, m.host, m.endpoint, m.share, m.joiner)
ET_FIELDS(Fence, m.generation, m.first_step)
ET_FIELDS(GenerationPlan, m.generation, m.previous, m.kind, m.reason, m.token, m.members, m.donors,
          m.learning_rate_factor, m.learning_rate_ramp_steps, m.build_deadline_ms, m.fence, m.resume_step, m.lineage,
          m.topology, m.parents, m.synchronization, m.averaging_weight, m.saves)

template <class T>
requires std::same_as<std::remove_const_t<T>, StepMetrics>
constexpr auto fields(T& m) {
  return std::apply([&m](const auto&... metric) { return std::tie(m.*metric.value...); }, kStepMetrics);
}

ET_FIELDS(WorkerHello, m.protocol_version, m.worker, m.pid, m.library_version)
ET_FIELDS(DataDivision, m.is_known, m.seed, m.shuffle, m.min_local_samples, m.drop_last, m.batches_per_step)
ET_FIELDS(WorkerReady, m.endpoint, m.state_bytes, m.state_layout_hash, m.sample_count, m.batch, m.epochs, m.max_steps,
          m.division, m.state_items, m.batch_of_all)
ET_FIELDS(WorkerPrepared, m.generation)
ET_FIELDS(WorkerPrepareFailed, m.generation, m.reason)
ET_FIELDS(WorkerActive, m.generation, m.first_step, m.state_transfer_bytes)
ET_FIELDS(WorkerLeft, m.generation, m.last_step)
ET_FIELDS(WorkerFinished, m.last_step, m.alone)
ET_FIELDS(DeviceMemoryUse, m.total_bytes, m.free_bytes, m.copies_bytes, m.sums_bytes)
ET_FIELDS(WorkerHeartbeat, m.sequence, m.generation, m.step, m.epoch, m.steps, m.mean, m.samples_per_s, m.loss,
          m.epoch_fraction, m.gradient_norm, m.place, m.place_ms, m.samples_used, m.norm_steps, m.local_square,
          m.global_square, m.round_trip_us, m.phase, m.local_inverse_batch, m.global_inverse_batch, m.mean_loss,
          m.loss_samples, m.device)
ET_FIELDS(AuditStep, m.generation, m.step, m.epoch, m.first_position, m.count, m.hashed, m.state_hash)
ET_FIELDS(WorkerAudit, m.steps, m.batch, m.of, m.from_checkpoint, m.counted_anew)
ET_FIELDS(WorkerNote, m.key, m.value)
ET_FIELDS(WorkerRequest, m.workers, m.per_worker, m.learning_rate_factor, m.topology, m.synchronization)
ET_FIELDS(WorkerSwap, m.generation, m.gap_us, m.step_us)
ET_FIELDS(WorkerHalted, m.fence, m.generation, m.committed_step, m.has_state, m.in_loop, m.reason, m.has_gradients,
          m.disagrees)
ET_FIELDS(WorkerParked, m.last_step)
ET_FIELDS(WorkerAsksEpoch)
ET_FIELDS(WorkerDeclines, m.reason)
ET_FIELDS(BoardPut, m.number, m.key, m.value)
ET_FIELDS(BoardGet, m.number, m.key, m.wait_ms)

ET_FIELDS(Prepare, m.plan)
ET_FIELDS(Commit, m.generation)
ET_FIELDS(Cancel, m.generation)
ET_FIELDS(Dismiss, m.reason)
ET_FIELDS(Abort, m.fence, m.reason)
ET_FIELDS(Orphaned, m.reason)
ET_FIELDS(Reassigned, m.worker)
ET_FIELDS(RunEpoch, m.epoch)
ET_FIELDS(BoardAnswer, m.number, m.found, m.value, m.problem)
ET_FIELDS(Disagreed, m.generation, m.reason)

ET_FIELDS(AgentBootstrap, m.protocol_version, m.run_name, m.agent, m.host, m.addresses, m.port, m.key,
          m.connect_timeout_ms, m.heartbeat_ms, m.worker_dead_ms, m.orphan_grace_ms, m.grace_ms, m.interface,
          m.notice_probe, m.notice_probe_ms, m.keep_warm_ms, m.keep_warm_percent, m.preload, m.preload_timeout_ms,
          m.usr1_is_notice)
ET_FIELDS(WarmProcess, m.worker, m.slot, m.pid, m.ending)
ET_FIELDS(AgentHello, m.protocol_version, m.binary_version, m.agent, m.host_name, m.pid, m.cores, m.memory_bytes,
          m.wall_clock_us, m.workers, m.warm, m.gpus)
ET_FIELDS(WarmProcesses, m.processes)
ET_FIELDS(WorkerSpawned, m.worker, m.pid)
ET_FIELDS(WorkerSpawnFailed, m.worker, m.reason, m.exit_status)
ET_FIELDS(ReplicaListens, m.worker, m.address)
ET_FIELDS(WorkerExited, m.worker, m.exit_code, m.signal, m.last_error_lines, m.out_of_memory, m.memory_limit_bytes,
          m.peak_bytes)
ET_FIELDS(WorkerOutput, m.worker, m.is_stderr, m.lines, m.dropped, m.unfinished)
ET_FIELDS(FromWorker, m.worker, m.message)
ET_FIELDS(WorkerSample, m.worker, m.quiet_ms, m.heartbeat, m.cpu_ms, m.stopped)
ET_FIELDS(AgentReport, m.sequence, m.workers)
ET_FIELDS(GpuFacts, m.name, m.memory_bytes, m.major, m.minor, m.bus_id)
ET_FIELDS(AcceleratorFacts, m.problem, m.driver, m.driver_problem, m.gpus, m.peer_access, m.nvrtc_problem, m.cublas,
          m.cublas_problem, m.nccl_version, m.nccl, m.nccl_problem, m.mpi, m.mpi_problem, m.shared_memory_free_bytes)
ET_FIELDS(HostFacts, m.binary_version, m.cores, m.memory_bytes, m.gpus, m.wall_clock_us, m.kernel_driver, m.interface,
          m.addresses, m.interface_problem, m.nccl_interface, m.program_problem, m.program_status, m.missing_file,
          m.interpreter)
ET_FIELDS(HostNotice, m.reason)
ET_FIELDS(AgentAnswer, m.question, m.worker, m.lines)

ET_FIELDS(ReplicaPlace, m.hosts, m.host, m.address, m.key)
ET_FIELDS(SpawnWorker, m.worker, m.slot, m.argv, m.environment, m.working_directory, m.warm, m.replica)
ET_FIELDS(SignalWorker, m.worker, m.signal)
ET_FIELDS(StopWorker, m.worker, m.grace_ms)
ET_FIELDS(ToWorkers, m.workers, m.message)
ET_FIELDS(StopAgent, m.grace_ms)
ET_FIELDS(SupervisorHeartbeat, m.sequence, m.acknowledged_report)
ET_FIELDS(CheckHost, m.environment, m.time_limit_ms, m.argv, m.working_directory, m.files)
ET_FIELDS(AskAgent, m.question, m.worker, m.time_limit_ms)
ET_FIELDS(KeepWarm, m.worker)
ET_FIELDS(EndWarm, m.worker)

ET_FIELDS(HostOffer, m.protocol_version, m.build_id, m.instance, m.host, m.slots)
ET_FIELDS(AgentEnded, m.agent, m.launched, m.exit_code, m.signal, m.message, m.agent_ended)
ET_FIELDS(HostLeaves, m.reason)
ET_FIELDS(ForgetAgent, m.agent)
ET_FIELDS(HostRefused, m.reason)
ET_FIELDS(HostUnneeded, m.reason)
ET_FIELDS(RunEnded, m.status)

#undef ET_FIELDS

}  // namespace elastictrain::protocol

// Writes and reads each type of a message in msgpack, field by field. For codec.cc and code that
// assembles a frame itself; everything else uses codec.h, which costs a fraction of the compile time.
// Thread: pure functions. Failure: read() is false for what does not fit the type.

namespace elastictrain::protocol::wire {

template <class T>
inline constexpr bool kIsId = false;
template <class Tag>
inline constexpr bool kIsId<Id<Tag>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;
template <class T>
inline constexpr bool kIsByteArray = false;
template <std::size_t N>
inline constexpr bool kIsByteArray<std::array<std::uint8_t, N>> = true;

using Packer = msgpack::packer<msgpack::sbuffer>;

// pack_double() sends whole numbers as integers; for 2^64, which is none, its conversion is undefined.
inline void write_double(Packer& out, double value) {
  if (value != 0x1p64) return static_cast<void>(out.pack(value));
  out.pack_bin_body("\xcb\x43\xf0\0\0\0\0\0\0", 9);
}

template <class T>
void write(Packer& out, const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    write_double(out, value);
  } else if constexpr (kIsId<T>) {
    out.pack(value.value);
  } else if constexpr (std::is_enum_v<T>) {
    out.pack(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    out.pack(value);
  } else if constexpr (kIsByteArray<T>) {
    out.pack_bin(static_cast<std::uint32_t>(value.size()));
    out.pack_bin_body(reinterpret_cast<const char*>(value.data()), static_cast<std::uint32_t>(value.size()));
  } else if constexpr (kIsVector<T>) {
    out.pack_array(static_cast<std::uint32_t>(value.size()));
    for (const auto& element : value) write(out, element);
  } else if constexpr (kIsVariant<T>) {
    out.pack_array(2);
    out.pack(static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& alternative) { write(out, alternative); }, value);
  } else {
    std::apply(
        [&](const auto&... field) {
          out.pack_array(sizeof...(field));
          (write(out, field), ...);
        },
        fields(value));
  }
}

template <class T>
bool read(const msgpack::object& in, T& value);

template <class T>
bool read_integer(const msgpack::object& in, T& value) {
  if (in.type == msgpack::type::POSITIVE_INTEGER) {
    if (in.via.u64 > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
    value = static_cast<T>(in.via.u64);
    return true;
  }
  if (in.type != msgpack::type::NEGATIVE_INTEGER || std::is_unsigned_v<T>) return false;
  if (in.via.i64 < static_cast<std::int64_t>(std::numeric_limits<T>::min())) return false;
  value = static_cast<T>(in.via.i64);
  return true;
}

template <class T>
bool read_real(const msgpack::object& in, T& value) {
  if (in.type == msgpack::type::POSITIVE_INTEGER)
    value = static_cast<T>(in.via.u64);
  else if (in.type == msgpack::type::NEGATIVE_INTEGER)
    value = static_cast<T>(in.via.i64);
  else if (in.type == msgpack::type::FLOAT32 || in.type == msgpack::type::FLOAT64)
    value = static_cast<T>(in.via.f64);
  else
    return false;
  return true;
}

template <class T>
bool read_vector(const msgpack::object& in, std::vector<T>& value) {
  if (in.type != msgpack::type::ARRAY) return false;
  value.clear();
  value.resize(in.via.array.size);
  for (std::uint32_t i = 0; i < in.via.array.size; ++i) {
    if (!read(in.via.array.ptr[i], value[i])) return false;
  }
  return true;
}

template <class Variant, std::size_t I = 0>
bool read_alternative(std::uint64_t index, const msgpack::object& in, Variant& value) {
  if constexpr (I < std::variant_size_v<Variant>) {
    if (index == I) return read(in, value.template emplace<I>());
    return read_alternative<Variant, I + 1>(index, in, value);
  } else {
    return false;
  }
}

template <class Variant>
bool read_variant(const msgpack::object& in, Variant& value) {
  if (in.type != msgpack::type::ARRAY || in.via.array.size != 2) return false;
  const msgpack::object& index = in.via.array.ptr[0];
  if (index.type != msgpack::type::POSITIVE_INTEGER) return false;
  return read_alternative(index.via.u64, in.via.array.ptr[1], value);
}

template <class T>
bool read_struct(const msgpack::object& in, T& value) {
  if (in.type != msgpack::type::ARRAY) return false;
  std::uint32_t next = 0;
  const auto read_next = [&](auto& field) {
    const std::uint32_t i = next++;
    return i >= in.via.array.size || read(in.via.array.ptr[i], field);
  };
  return std::apply([&](auto&... field) { return (read_next(field) && ...); }, fields(value));
}

// Highest value of each enumeration that travels; anything above it is malformed.
constexpr std::uint64_t last_value(ChangeKind) {
  return static_cast<std::uint64_t>(ChangeKind::kUpdatePlan);
}
constexpr std::uint64_t last_value(Topology) {
  return static_cast<std::uint64_t>(Topology::kClique);
}
constexpr std::uint64_t last_value(Synchronization) {
  return static_cast<std::uint64_t>(Synchronization::kPairAveraging);
}
constexpr std::uint64_t last_value(StepPlace) {
  return static_cast<std::uint64_t>(StepPlace::kHalted);
}
constexpr std::uint64_t last_value(ProgramPhase) {
  return static_cast<std::uint64_t>(ProgramPhase::kCheckpoint);
}
constexpr std::uint64_t last_value(Question) {
  return kQuestionNames.size() - 1;
}

template <class T>
bool read(const msgpack::object& in, T& value) {
  if constexpr (kIsId<T>) {
    return read_integer(in, value.value);
  } else if constexpr (std::is_enum_v<T>) {
    std::uint64_t number = 0;
    if (!read_integer(in, number) || number > last_value(T{})) return false;
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (in.type != msgpack::type::BOOLEAN) return false;
    value = in.via.boolean;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    return read_integer(in, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_real(in, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (in.type != msgpack::type::STR) return false;
    value.assign(in.via.str.ptr, in.via.str.size);
    return true;
  } else if constexpr (kIsByteArray<T>) {
    if (in.type != msgpack::type::BIN || in.via.bin.size != value.size()) return false;
    std::memcpy(value.data(), in.via.bin.ptr, value.size());
    return true;
  } else if constexpr (kIsVector<T>) {
    return read_vector(in, value);
  } else if constexpr (kIsVariant<T>) {
    return read_variant(in, value);
  } else {
    return read_struct(in, value);
  }
}

inline void put_length(char* out, std::size_t length) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>((length >> (8 * i)) & 0xff);
}

}  // namespace elastictrain::protocol::wire
