/* elastictrain: C API for training programs; session.hpp documents the calls and their order.
 *
 *   et_session* session = NULL;
 *   et_session_create(&session);
 *   et_share_model(session, "weights", weights, count);
 *   et_share_state(session, "momentum", momentum, bytes);
 *   et_data_options data = ET_DATA_OPTIONS_INIT;
 *   data.sample_count = n;
 *   et_set_data(session, &data);
 *   int go = 0;
 *   et_start(session, &go);
 *   et_batch batch = ET_BATCH_INIT;
 *   while (go && et_next_batch(session, &batch, &go) == ET_OK && go) {
 *     ...
 *     et_all_reduce(session, gradient, count);
 *     ...
 *     et_commit_step(session, NULL);
 *   }
 *   et_session_destroy(session);
 *
 * State may be written only after the step's last all-reduce has returned, and the step's gradient buffers must stay
 * valid until et_commit_step(): when a worker is lost the all-reduces of the open step are repeated.
 *
 * Every call returns ET_OK or a status; et_last_error() then states what happened and what to do. No call throws.
 * Structs start with their size, set by the _INIT macros: a program built against an older header works with a newer
 * library, which leaves fields that the program does not know at their default. Thread: any thread, one call at a
 * time; et_last_error() is that of the calling thread. */
#ifndef ELASTICTRAIN_ELASTICTRAIN_H
#define ELASTICTRAIN_ELASTICTRAIN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ET_API __attribute__((visibility("default")))
#else
#define ET_API
#endif

/* Of enums that are arguments: in C++, as in C, they may have any value of an int, and the library checks it. */
#ifdef __cplusplus
#define ET_ENUM_BASE : int
#else
#define ET_ENUM_BASE
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ET_API_VERSION 1

typedef struct et_session et_session;

typedef enum et_status {
  ET_OK = 0,
  ET_ERROR_INVALID = 1, /* a null pointer or a struct that this library does not know */
  ET_ERROR_SESSION = 2, /* the session cannot continue; end the program */
  ET_ERROR_INTERNAL = 3,
  ET_ERROR_INTERRUPTED = 4 /* a loss ended a collective between two steps; call et_next_batch() again */
} et_status;

typedef enum et_outcome {
  ET_OUTCOME_RUNNING = 0,
  ET_OUTCOME_FINISHED = 1,
  ET_OUTCOME_LEFT = 2,
  ET_OUTCOME_STOPPED = 3
} et_outcome;

typedef struct et_data_options {
  size_t size;
  uint64_t sample_count;
  uint64_t epochs;
  uint64_t seed;
  uint64_t max_steps;
  uint32_t batch;
  uint32_t shuffle;           /* 0 or 1 */
  uint32_t drop_last;         /* 1: the rest of an epoch that does not fill a step is dropped */
  uint32_t min_local_samples; /* no batch that is not empty has fewer samples */
  uint32_t batches_per_step;  /* the program makes a step from so many; the run's own batch is that of one; 0: one */
  uint32_t batch_of_all;      /* 1: `batch` is that of all workers together; 0: of each */
} et_data_options;
#define ET_DATA_OPTIONS_INIT \
  { sizeof(et_data_options), 0, 1, 0, 0, 32, 1, 0, 0, 0, 0 }

typedef struct et_batch {
  size_t size;
  uint64_t step;
  uint64_t epoch;
  const uint64_t* samples; /* local_samples indices, valid until et_commit_step(); NULL if sample_count is 0 */
  uint64_t local_samples;
  uint64_t global_samples;
  uint32_t first_of_epoch;
  uint32_t reserved;
} et_batch;
#define ET_BATCH_INIT \
  { sizeof(et_batch), 0, 0, NULL, 0, 0, 0, 0 }

typedef struct et_step_metrics {
  size_t size;
  double loss;
} et_step_metrics;
#define ET_STEP_METRICS_INIT \
  { sizeof(et_step_metrics), 0 }

typedef struct et_step_report {
  size_t size;
  double loss;
  uint64_t samples;
  double gradient_norm;
  double slowest_compute_us;
} et_step_report;
#define ET_STEP_REPORT_INIT \
  { sizeof(et_step_report), 0, 0, 0, 0 }

typedef struct et_change {
  size_t size;
  uint64_t generation;
  uint32_t rank;
  uint32_t world_size;
  uint32_t previous_world_size;
  uint32_t joined_now;
  const char* reason; /* valid during the call */
} et_change;
typedef void (*et_change_callback)(const et_change* change, void* user_data);

/* Access to memory that this process cannot reach: both copy, `offset` bytes behind its begin, and return when that is
 * done: 0, or another number if it cannot be, with a sentence of at most `room` bytes, its end included, in `problem`.
 * They are called until et_session_destroy(), on threads of the session too, several at once. */
typedef int (*et_memory_read)(uint64_t offset, void* into, size_t bytes, char* problem, size_t room, void* user_data);
typedef int (*et_memory_write)(uint64_t offset, const void* from, size_t bytes, char* problem, size_t room,
                               void* user_data);

/* A sum that the program makes elsewhere, as SumElsewhere of session.hpp; plane.hpp has the whole. Valid during the
 * call. */
typedef struct et_exchange et_exchange;
typedef struct et_sum_elsewhere {
  size_t size;
  uint64_t step;
  uint64_t generation;
  uint32_t bucket;
  uint32_t rank;
  uint32_t world_size;
  uint32_t encryption;
  uint8_t token[16];
  float scale;
  uint32_t has_input; /* this and the following: 0 or 1 */
  uint32_t keeps;
  uint32_t is_kept;
  uint32_t wants_norms;
  et_exchange* exchange;
} et_sum_elsewhere;
typedef struct et_sums_elsewhere {
  size_t size;
  uint32_t failed; /* 0 or 1 */
  uint32_t reserved;
  double local_square_sum; /* these two: to be set where norms are wanted */
  double reduced_square_sum;
  et_exchange* exchange;
} et_sums_elsewhere;
/* Both return 0, or another number, with a sentence of at most `room` bytes, its end included, in `problem`. `start` is
 * called on a thread of the session, `finish` on the one that waits. */
typedef int (*et_start_elsewhere)(const et_sum_elsewhere* sum, char* problem, size_t room, void* user_data);
typedef int (*et_finish_elsewhere)(et_sums_elsewhere* sums, char* problem, size_t room, void* user_data);

typedef struct et_named {
  const char* name;
  void* data;
  size_t bytes;
} et_named;
/* A checkpoint of another layout than the program's state has; its checksum is right. The callback fills the state and
 * sets what the run goes on with, or says why it cannot be: then the checkpoint is skipped. What it points to must stay
 * valid until et_start() returns. */
typedef struct et_other_layout {
  size_t size;
  const char* manifest; /* JSON */
  size_t manifest_bytes;
  const char* header; /* of the safetensors file, from its first byte */
  size_t header_bytes;
  const void* data; /* of all its tensors */
  size_t data_bytes;
  const et_named* state; /* of this program, with the values that it has now */
  size_t state_count;
  const char* refusal; /* NULL: none */
  uint64_t samples_used;
  uint64_t epoch;
  uint64_t cursor;
  const uint64_t* returned; /* first and count of each interval */
  size_t returned_count;
  const et_named* early;
  size_t early_count;
  const et_named* attachments;
  size_t attachment_count;
} et_other_layout;
typedef void (*et_other_layout_callback)(et_other_layout* other, void* user_data);
typedef void (*et_before_step)(const et_batch* batch, void* user_data);
typedef void (*et_after_step)(const et_step_report* report, void* user_data);

typedef enum et_type ET_ENUM_BASE {
  ET_FLOAT32 = 0,
  ET_FLOAT16 = 1,
  ET_BFLOAT16 = 2,
  ET_FLOAT64 = 3,
  ET_INT32 = 4,
  ET_INT64 = 5,
  ET_UINT8 = 6,
  ET_BOOL = 7
} et_type;

typedef enum et_operation ET_ENUM_BASE { ET_SUM = 0, ET_MAX = 1, ET_MIN = 2, ET_PRODUCT = 3 } et_operation;

typedef enum et_synchronization {
  ET_SYNCHRONIZATION_GRADIENTS = 0,
  ET_SYNCHRONIZATION_AVERAGING = 1,
  ET_SYNCHRONIZATION_PAIR_AVERAGING = 2
} et_synchronization;

typedef struct et_monitors {
  size_t size;
  uint32_t has_noise_scale; /* 0 or 1 */
  uint32_t slowest_rank;
  double noise_scale;
  double gradient_norm;
  double gradient_variance;
  double slowest_compute_us;
  double step_us;
  double data_wait_us;
  double compute_us;
  double communicate_us;
  double update_us;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_shared;
} et_monitors;
#define ET_MONITORS_INIT \
  { sizeof(et_monitors), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

ET_API const char* et_version(void);
ET_API const char* et_last_error(void); /* of the calling thread; never NULL */
/* In a process that a worker has started to load data or for another part of its work, without a session: signals that
 * all processes of a job get (TERM, INT, USR1, USR2) do nothing, but TERM of the parent, of the agent and of `worker`,
 * a process id, ends it. INT, USR1 and USR2 that the program handles keep their effect. A process that a worker has
 * forked ignores TERM likewise without this call. */
ET_API void et_ignore_notices(int64_t worker);

ET_API et_status et_session_create(et_session** session);
ET_API void et_session_destroy(et_session* session); /* NULL is allowed; refused in a callback of the session */
ET_API et_status et_share_state(et_session* session, const char* name, void* data, size_t bytes);
ET_API et_status et_share_model(et_session* session, const char* name, float* data, size_t count);
/* `ordinal`: in: the device's number, or -1 for that of the slot; out: the number in use. Call before sharing state. */
ET_API et_status et_use_device(et_session* session, int* ordinal);
/* Gradients in device memory are used only in the stream that was passed with them, so that et_wait_all_reduce() of a
 * worker alone may return before the device has computed them. After et_use_device(), before et_start(). */
ET_API et_status et_use_stream_order(et_session* session);
/* Memory for the copies of a step's gradients in device memory: `bytes`, the sum of their sizes and 16 for each bucket.
 * `device_memory`: the program's, for the session's lifetime, or NULL: the session allocates it, when it is needed.
 * `needed`: whether that is at once, i.e. this worker has peers; 0 bytes only ask that. After et_use_device(), before
 * et_start(). Without this call the first step asks for the memory, while others wait. */
ET_API et_status et_reserve_gradient_copies(et_session* session, size_t bytes, void* device_memory, int* needed);
ET_API et_status et_share_device_state(et_session* session, const char* name, void* device_data, size_t bytes);
/* State with the dtype (safetensors' name: F32, BF16, I64, ...) and shape that checkpoints give it. */
ET_API et_status et_share_tensor(et_session* session, const char* name, void* data, const char* dtype,
                                 const uint64_t* shape, uint32_t dimensions);
/* The same for a tensor that this process cannot reach itself; refused after et_use_device(). */
ET_API et_status et_share_tensor_through(et_session* session, const char* name, const char* dtype,
                                         const uint64_t* shape, uint32_t dimensions, et_memory_read read,
                                         et_memory_write write, void* user_data);
/* The same for what the forward pass writes: any time in a step, equal on all workers by et_commit_step(). */
ET_API et_status et_share_forward_tensor(et_session* session, const char* name, void* data, const char* dtype,
                                         const uint64_t* shape, uint32_t dimensions);
/* The same for what the first rank alone keeps up to date: its values as of the first all-reduce of every
 * `every_steps`-th step are state, and in every worker's memory, from that step's commit on. */
ET_API et_status et_share_first_tensor(et_session* session, const char* name, void* data, const char* dtype,
                                       const uint64_t* shape, uint32_t dimensions, uint64_t every_steps);
/* What each rank keeps for itself: in checkpoints, rank by rank, but sent to no joiner; written at any time. */
ET_API et_status et_share_local_state(et_session* session, const char* name, void* data, size_t bytes);
/* State that the program has moved, with its content: before et_start(), or where it may be written in a step. */
ET_API et_status et_move_state(et_session* session, const char* name, void* data);
/* A small value, equal on all ranks, copied: before et_start() its initial value, later a new one inside a step. A
 * joiner has the present values when et_start() returns. All names and values together: 4 MiB. */
ET_API et_status et_share_early(et_session* session, const char* name, const void* data, size_t bytes);
/* `bytes`: in: room at `data`; out: the value's size. Copied if it fits; otherwise nothing is written. */
ET_API et_status et_early(const et_session* session, const char* name, void* data, size_t* bytes);
ET_API et_status et_set_data(et_session* session, const et_data_options* options);
ET_API et_status et_on_change(et_session* session, et_change_callback callback, void* user_data);
/* For state that is divided among several processes: called in et_start(), on the first rank, where the run is to go on
 * from a checkpoint of another layout. Without it such a checkpoint is skipped. `division`: the end of the names of
 * early values that say how state is divided; where those of the checkpoint are others, its layout is another one, too.
 */
ET_API et_status et_on_other_layout(et_session* session, const char* division, et_other_layout_callback callback,
                                    void* user_data);
/* A policy of the program's own, in every worker: `before` is called in et_next_batch() with the batch, `after` in
 * et_commit_step() with its report, on all workers that made the step, before any of them takes another assignment.
 * Both may call collectives; one that returns ET_ERROR_INTERRUPTED in `after` ends nothing: return, and train on.
 * Either may be NULL. */
ET_API et_status et_step_hooks(et_session* session, et_before_step before, et_after_step after, void* user_data);
/* Before et_start(), for a program that goes through past epochs. `epoch`: in: where it is; out: the same once
 * et_start() would not wait any more, or the later epoch that the run is in: go there and call again. */
ET_API et_status et_await_start(et_session* session, uint64_t* epoch);
ET_API et_status et_start(et_session* session, int* started);
ET_API et_status et_next_batch(et_session* session, et_batch* batch, int* has_batch);
/* What the next batches of this rank will be if the membership stays as it is, or becomes what the change says that is
 * ready here: after the open step, or from the next one on. `sample_count`: in: room at `samples`; out: numbers
 * written. `batch_sizes` has room for `batches` numbers; `batch_count`: out: batches that there are and whose samples
 * fit. */
ET_API et_status et_look_ahead(const et_session* session, uint32_t batches, uint64_t* samples, size_t* sample_count,
                               uint64_t* batch_sizes, uint32_t* batch_count);
ET_API et_status et_all_reduce(et_session* session, float* gradient, size_t count);
ET_API et_status et_all_reduce_async(et_session* session, float* gradient, size_t count);
/* `stream`: a cudaStream_t, NULL for the default one. */
ET_API et_status et_all_reduce_device(et_session* session, float* device_gradient, size_t count, void* stream);
ET_API et_status et_all_reduce_device_async(et_session* session, float* device_gradient, size_t count, void* stream);
/* The same for gradients of ET_FLOAT16, ET_BFLOAT16 or ET_FLOAT32: summed in single precision, rounded once. All ranks
 * pass the same type; otherwise the call fails. */
ET_API et_status et_all_reduce_typed(et_session* session, void* gradient, size_t count, et_type type);
ET_API et_status et_all_reduce_typed_async(et_session* session, void* gradient, size_t count, et_type type);
ET_API et_status et_all_reduce_device_typed(et_session* session, void* device_gradient, size_t count, et_type type,
                                            void* stream);
ET_API et_status et_all_reduce_device_typed_async(et_session* session, void* device_gradient, size_t count,
                                                  et_type type, void* stream);
/* One bucket whose sum the program makes elsewhere: `start` for each, in the order of the calls; `finish`, of the last
 * of them, for all together. */
ET_API et_status et_all_reduce_elsewhere_async(et_session* session, et_start_elsewhere start,
                                               et_finish_elsewhere finish, void* user_data);
/* In `start` only: `bytes` of each rank, in their order; all ranks call it. `gathered` has room for as many blocks. */
ET_API et_status et_exchange_all_gather(et_exchange* exchange, const void* data, size_t bytes, void* gathered);
/* In both: 1 if the generation is over, so that nothing may wait for others any more. */
ET_API int et_exchange_is_broken(const et_exchange* exchange);
/* Also in a step without an all-reduce: before its state is written. */
ET_API et_status et_wait_all_reduce(et_session* session);
ET_API et_status et_commit_step(et_session* session, const et_step_metrics* metrics); /* metrics may be NULL */
/* The data of all workers end with the step whose first all-reduce follows; go on with et_next_batch() until it has no
 * batch. One worker's call suffices. */
ET_API et_status et_end_data(et_session* session);
/* What follows may take long: "data", "evaluation", "compile" or "checkpoint"; NULL or "" at its end. In a step or
 * between steps; not a hang for at most failures.phase_timeout_ms. */
ET_API et_status et_phase(et_session* session, const char* name);
ET_API et_status et_last_step(const et_session* session, et_step_report* report);
ET_API et_status et_sum(et_session* session, float* data, size_t count);
ET_API et_status et_broadcast(et_session* session, void* data, size_t bytes);
/* The program's own collectives, in a step or between two steps (there, ET_ERROR_INTERRUPTED after a loss). In a step
 * the memory that they write must stay valid until et_commit_step(). */
ET_API et_status et_reduce_values(et_session* session, void* data, size_t count, et_type type, et_operation operation);
ET_API et_status et_broadcast_from(et_session* session, void* data, size_t bytes, uint32_t root);
/* `received`: the root's data, as many bytes, in memory of its own. */
ET_API et_status et_broadcast_into(et_session* session, const void* data, size_t bytes, uint32_t root, void* received);
/* `gathered`: world size x bytes. */
ET_API et_status et_all_gather(et_session* session, const void* data, size_t bytes, void* gathered);
/* `equal`, out: 1 if all ranks passed the same bytes, as many each, and 0 if not. */
ET_API et_status et_agree(et_session* session, const void* data, size_t bytes, int* equal);
/* `data`: world size x count_per_rank elements; `result`: count_per_rank. */
ET_API et_status et_reduce_scatter(et_session* session, const void* data, size_t count_per_rank, et_type type,
                                   et_operation operation, void* result);
ET_API et_status et_barrier(et_session* session);
/* All workers call, each with the number of its group; data passes only within a group. `gathered` has room for world
 * size blocks; `size`, out: how many there are. `root`: a place in the group. */
ET_API et_status et_reduce_values_in(et_session* session, uint64_t group, void* data, size_t count, et_type type,
                                     et_operation operation);
ET_API et_status et_all_gather_in(et_session* session, uint64_t group, const void* data, size_t bytes, void* gathered,
                                  uint32_t* size);
ET_API et_status et_broadcast_in(et_session* session, uint64_t group, void* data, size_t bytes, uint32_t root);
/* In a step, in the background, until et_wait_all_reduce() or et_commit_step(). Ranks may start them in different
 * orders: the key says which belong together. Between two other calls of the step all ranks start the same keys, each
 * once. */
ET_API et_status et_reduce_values_async(et_session* session, const char* key, void* data, size_t count, et_type type,
                                        et_operation operation);
ET_API et_status et_broadcast_async(et_session* session, const char* key, void* data, size_t bytes, uint32_t root);
/* Memory of the session for values that must stay where they are until et_commit_step(): valid until the next
 * et_next_batch(). */
ET_API et_status et_step_memory(et_session* session, size_t bytes, void** memory);
ET_API et_status et_enable_store(et_session* session);
ET_API et_status et_save(et_session* session, const char* name, const void* data, size_t bytes, uint64_t version);
/* `version`: in: the requested one, 0 for the newest; out: the one that was found, 0 for none. Missing data is also
 * ET_OK; et_last_error() states any other reason. */
ET_API et_status et_request(et_session* session, uint32_t rank, const char* name, void* data, size_t bytes,
                            uint64_t* version);
/* One value for each rank. */
ET_API et_status et_peer_latencies_us(et_session* session, double* latencies, size_t count);
/* Pairs of ranks. `count`: in: numbers that fit; out: numbers written, 2 (world size - 1) or fewer. */
ET_API et_status et_minimum_spanning_tree(et_session* session, uint32_t* edges, size_t* count);
ET_API et_status et_get_monitors(const et_session* session, et_monitors* monitors);
/* One value in each array for each rank, up to `count`; arrays may be NULL. */
ET_API et_status et_get_peer_monitors(const et_session* session, uint64_t* bytes_sent, uint64_t* bytes_received,
                                      double* round_trip_us, size_t count);
ET_API et_status et_measure_gradient_variance(et_session* session, uint64_t every_steps);
/* Where et_half_batch() is above 0: the squared norms of the mean gradients of the batch's first et_half_batch()
 * samples and of the others. They show the noise scale of a worker that trains alone. */
ET_API et_status et_report_halves(et_session* session, double first_square, double second_square);
ET_API et_status et_request_resize(et_session* session, uint32_t workers);
ET_API et_status et_request_batch(et_session* session, uint32_t per_worker);
ET_API et_status et_request_learning_rate_factor(et_session* session, double factor);
ET_API et_status et_request_synchronization(et_session* session, et_synchronization synchronization);
ET_API et_status et_request_topology(et_session* session, const char* name);
ET_API et_status et_step_based_schedule(const char* schedule, uint64_t step, uint32_t* workers);
/* Of the device with the least free memory, for a program that uses devices itself; the last call counts. */
ET_API et_status et_device_memory(et_session* session, uint64_t total_bytes, uint64_t free_bytes);
/* Up to 1,000 notes at once and 50 a second; the rest is dropped and counted. A value has at most 64 KiB. */
ET_API et_status et_note(et_session* session, const char* key, const char* value);
typedef enum et_boundary_part {
  ET_BOUNDARY_CHECKPOINT = 1,
  ET_BOUNDARY_CHANGE = 2,
  ET_BOUNDARY_STOP = 4,
  ET_BOUNDARY_END = 8 /* of the data */
} et_boundary_part;
/* What the open step's commit will do, the same on all members: any of et_boundary_part. Behind the step's last sum; on
 * all workers if the step has none. */
ET_API et_status et_boundary(et_session* session, uint32_t* parts);
/* Behind the step's sums: values that must be equal on all ranks are not. The newest members go, and it returns when
 * the others have repeated the sums; ET_ERROR_SESSION if nobody is newer than the others. */
ET_API et_status et_disagree(et_session* session, const char* reason);
/* Before et_start(): this worker cannot join. End the program then. */
ET_API et_status et_decline(et_session* session, const char* reason);
/* A value that becomes part of the checkpoint of the open step, if one is written; the first rank's counts. All of a
 * step together: 8 MiB. */
ET_API et_status et_attach(et_session* session, const char* name, const void* data, size_t bytes);
/* From the checkpoint with which this run has begun. `bytes`: in: room at `data`; out: the value's size, which is
 * copied if it fits. `found`, out: 0 if there is none. */
ET_API et_status et_attachment(const et_session* session, const char* name, void* data, size_t* bytes, int* found);
/* The board of the run: small values by key that its workers leave for one another, members or not, from
 * et_session_create() on; any thread. A value stays until it is replaced. A key has at most 200 bytes, a value 4 MiB,
 * all of the run 64 MiB. et_board_put() does not wait. */
ET_API et_status et_board_put(et_session* session, const char* key, const void* value, size_t bytes);
/* Waits for the key at most `wait_ms`. `bytes`: in: room at `value`; out: the value's size, which is copied if it fits.
 * `found`, out: 0 if there is none, or no supervisor answers, for which it waits at least 5 seconds. */
ET_API et_status et_board_get(et_session* session, const char* key, uint64_t wait_ms, void* value, size_t* bytes,
                              int* found);
ET_API et_status et_finish(et_session* session);

/* Sums of the other processes of a worker, as plane.hpp says. ET_ERROR_INTERRUPTED: the plane of a later generation
 * makes again what has ended. Thread: one at a time; et_plane_abort() any, until et_plane_close(). */
#define ET_PLANE_ENDPOINT_BYTES 512
typedef struct et_plane et_plane;
typedef struct et_plane_world {
  size_t size;
  uint64_t generation;
  uint8_t token[16];
  uint32_t encryption;
  uint32_t index; /* of this process in its worker */
  uint32_t rank;
  uint32_t world_size;
  const void* endpoints; /* of all ranks, ET_PLANE_ENDPOINT_BYTES each */
  uint64_t time_limit_ms;
} et_plane_world;
#define ET_PLANE_WORLD_INIT \
  { sizeof(et_plane_world), 0, {0}, 0, 0, 0, 0, NULL, 30000 }
typedef struct et_plane_sum {
  size_t size;
  void* data;
  size_t count;
  uint64_t step;
  et_type type; /* ET_FLOAT32, ET_FLOAT16 or ET_BFLOAT16 */
  uint32_t bucket;
  float scale;
  uint32_t has_input; /* this and the following: 0 or 1 */
  uint32_t keeps;
  uint32_t is_kept;
  uint32_t wants_norms;
  double local_square_sum; /* these two, out: where norms are wanted */
  double reduced_square_sum;
} et_plane_sum;
#define ET_PLANE_SUM_INIT \
  { sizeof(et_plane_sum), NULL, 0, 0, ET_FLOAT32, 0, 1, 1, 0, 0, 0, 0, 0 }
ET_API et_status et_plane_open(et_plane** plane);
ET_API void et_plane_close(et_plane* plane);                               /* NULL is allowed */
ET_API et_status et_plane_endpoint(const et_plane* plane, void* endpoint); /* ET_PLANE_ENDPOINT_BYTES */
ET_API et_status et_plane_build(et_plane* plane, const et_plane_world* world);
ET_API et_status et_plane_all_reduce(et_plane* plane, et_plane_sum* sum);
ET_API et_status et_plane_abort(et_plane* plane, uint64_t generation);

/* For a null session these return 0, a factor of 1, ET_OUTCOME_STOPPED or ET_SYNCHRONIZATION_GRADIENTS. */
ET_API uint32_t et_rank(const et_session* session);
ET_API uint32_t et_world_size(const et_session* session);
ET_API uint32_t et_local_rank(const et_session* session);
ET_API uint64_t et_generation(const et_session* session);
ET_API uint64_t et_worker_id(const et_session* session);
ET_API uint64_t et_committed_step(const et_session* session);
ET_API uint64_t et_half_batch(const et_session* session);
ET_API double et_learning_rate_factor(const et_session* session);
ET_API int et_launched(const et_session* session);
ET_API et_outcome et_outcome_of(const et_session* session);
ET_API et_synchronization et_synchronization_of(const et_session* session);

#ifdef __cplusplus
}
#endif

#endif
