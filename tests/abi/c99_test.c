/* Trains alone through the C API: results, order of calls, structs of older and newer callers, statuses. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "elastictrain/elastictrain.h"

static int failures = 0;

#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, et_last_error()); \
      ++failures;                                                                                       \
    }                                                                                                   \
  } while (0)

static et_session* in_training;

static void refuse_other_layout(et_other_layout* other, void* user_data) {
  (void)user_data;
  other->refusal = "it is never called here";
}

static int read_zeros(uint64_t offset, void* into, size_t bytes, char* problem, size_t room, void* user_data) {
  (void)offset, (void)problem, (void)room, (void)user_data;
  memset(into, 0, bytes);
  return 0;
}

static int forget(uint64_t offset, const void* from, size_t bytes, char* problem, size_t room, void* user_data) {
  (void)offset, (void)from, (void)bytes, (void)problem, (void)room, (void)user_data;
  return 0;
}

static void count_change(const et_change* change, void* user_data) {
  et_session_destroy(in_training); /* refused: the session goes on */
  CHECK(strstr(et_last_error(), "in a callback of the session is refused") != NULL);
  CHECK(change->size == sizeof(et_change));
  CHECK(change->world_size == 1);
  CHECK(change->reason != NULL);
  ++*(int*)user_data;
}

/* Of 30 samples, where the step asks for it. */
static void reports_halves(et_session* session, int is_asked) {
  CHECK(et_half_batch(session) == (is_asked ? 15 : 0) && et_half_batch(NULL) == 0);
  CHECK(et_report_halves(session, 1, 2) == (is_asked ? ET_OK : ET_ERROR_SESSION));
  CHECK(et_report_halves(NULL, 1, 2) == ET_ERROR_INVALID);
}

/* Alone nobody carries the wishes out; wrong ones are told apart all the same. */
static void asks(et_session* session) {
  uint32_t workers = 0;
  reports_halves(session, 0);
  CHECK(et_request_resize(session, 2) == ET_OK);
  CHECK(et_request_resize(session, 0) == ET_ERROR_SESSION);
  CHECK(et_request_batch(session, 16) == ET_OK);
  CHECK(et_request_batch(session, 0) == ET_ERROR_SESSION);
  CHECK(et_request_learning_rate_factor(session, 0.5) == ET_OK);
  CHECK(et_request_learning_rate_factor(session, -1) == ET_ERROR_SESSION);
  CHECK(et_request_synchronization(session, ET_SYNCHRONIZATION_AVERAGING) == ET_OK);
  CHECK(et_request_topology(session, "ring") == ET_OK);
  CHECK(et_request_topology(session, "moebius") == ET_ERROR_SESSION);
  CHECK(et_synchronization_of(session) == ET_SYNCHRONIZATION_GRADIENTS);
  CHECK(et_step_based_schedule("2:100,4:200", 99, &workers) == ET_OK && workers == 2);
  CHECK(et_step_based_schedule("2:100,4:200", 100, &workers) == ET_OK && workers == 4);
  CHECK(et_step_based_schedule("2:100,4:200", 1000, &workers) == ET_OK && workers == 4);
  CHECK(et_step_based_schedule("", 5, &workers) == ET_OK && workers == 1);
  CHECK(et_step_based_schedule("2;100", 5, &workers) == ET_ERROR_SESSION);
}

/* Where there is no such GPU, or none is asked for, device memory is refused in words. */
static void has_no_device(et_session* session) {
  int ordinal = 4711;
  float gradient = 0;
  CHECK(et_use_device(session, NULL) == ET_ERROR_INVALID);
  CHECK(et_use_device(session, &ordinal) == ET_ERROR_SESSION);
  CHECK(et_use_stream_order(NULL) == ET_ERROR_INVALID);
  CHECK(et_use_stream_order(session) == ET_ERROR_SESSION);
  CHECK(et_reserve_gradient_copies(session, 16, NULL, NULL) == ET_ERROR_INVALID);
  CHECK(et_reserve_gradient_copies(session, 16, NULL, &ordinal) == ET_ERROR_SESSION);
  CHECK(strlen(et_last_error()) > 10);
  CHECK(et_share_device_state(session, "device", &gradient, sizeof gradient) == ET_ERROR_SESSION);
  CHECK(strstr(et_last_error(), "use_device()") != NULL);
}

/* In a world of one it asks itself. */
static void uses_the_store(et_session* session, uint64_t step) {
  float saved = (float)step, found = 0;
  uint64_t version = 0;
  double latency = -1;
  uint32_t edges[2];
  size_t count = 2;
  CHECK(et_save(session, "model", &saved, sizeof saved, step) == ET_OK);
  CHECK(et_request(session, 0, "model", &found, sizeof found, &version) == ET_OK);
  CHECK(version == step && found == saved);
  version = step;
  CHECK(et_request(session, 0, "other", &found, sizeof found, &version) == ET_OK && version == 0);
  CHECK(et_request(session, 7, "model", &found, sizeof found, &version) == ET_OK && version == 0);
  CHECK(strstr(et_last_error(), "rank 7") != NULL);
  CHECK(et_save(session, "model", &saved, sizeof saved, 0) == ET_ERROR_SESSION);
  CHECK(et_peer_latencies_us(session, &latency, 1) == ET_OK && latency == 0);
  CHECK(et_minimum_spanning_tree(session, edges, &count) == ET_OK && count == 0);
}

/* Alone there is nobody to exchange anything with. */
static void has_no_peers(et_session* session) {
  uint64_t sent[2] = {7, 7}, received = 7;
  double round_trip = 7;
  CHECK(et_get_peer_monitors(session, sent, &received, &round_trip, 1) == ET_OK);
  CHECK(sent[0] == 0 && received == 0 && round_trip == 0);
  CHECK(et_get_peer_monitors(session, sent, NULL, NULL, 2) == ET_OK);
  CHECK(sent[1] == 7);
  CHECK(et_get_peer_monitors(NULL, sent, NULL, NULL, 1) == ET_ERROR_INVALID);
}

/* In a step. */
static void has_attachments(et_session* session) {
  uint32_t parts = 0;
  size_t bytes = 0;
  int found = 1;
  CHECK(et_attach(session, "record", "abc", 3) == ET_OK);
  CHECK(et_attach(session, "record", NULL, 3) == ET_ERROR_INVALID);
  CHECK(et_attachment(session, "record", NULL, &bytes, &found) == ET_OK && found == 0);
  CHECK(et_boundary(session, NULL) == ET_ERROR_INVALID);
  CHECK(et_boundary(session, &parts) == ET_OK && (parts & ~(uint32_t)ET_BOUNDARY_END) == 0);
}

/* In a step and between steps. */
static void shares_values(et_session* session) {
  double largest = 1.5;
  int64_t part = 0;
  const int64_t parts[1] = {7};
  uint16_t half = 0x3c00;
  uint32_t mine = 5, all = 0, size = 0;
  int equal = 0;
  void* memory = NULL;
  CHECK(et_reduce_values(session, &largest, 1, ET_FLOAT64, ET_MAX) == ET_OK && largest == 1.5);
  CHECK(et_reduce_values(session, &half, 1, ET_FLOAT16, ET_SUM) == ET_OK && half == 0x3c00);
  CHECK(et_reduce_values(session, &half, 1, (et_type)8, ET_SUM) == ET_ERROR_INVALID);
  CHECK(et_reduce_values(session, NULL, 1, ET_FLOAT64, ET_SUM) == ET_ERROR_INVALID);
  CHECK(et_broadcast_from(session, &mine, sizeof mine, 0) == ET_OK && mine == 5);
  CHECK(et_broadcast_from(session, &mine, sizeof mine, 1) == ET_ERROR_SESSION);
  CHECK(et_broadcast_into(session, &mine, sizeof mine, 0, &all) == ET_OK && all == 5);
  CHECK(et_broadcast_into(session, &mine, sizeof mine, 1, &all) == ET_ERROR_SESSION);
  CHECK(et_broadcast_into(session, &mine, sizeof mine, 0, NULL) == ET_ERROR_INVALID);
  all = 0;
  CHECK(et_all_gather(session, &mine, sizeof mine, &all) == ET_OK && all == 5);
  CHECK(et_reduce_scatter(session, parts, 1, ET_INT64, ET_PRODUCT, &part) == ET_OK && part == 7);
  CHECK(et_agree(session, &mine, sizeof mine, &equal) == ET_OK && equal == 1);
  CHECK(et_agree(session, &mine, sizeof mine, NULL) == ET_ERROR_INVALID);
  CHECK(et_reduce_values_in(session, 3, &largest, 1, ET_FLOAT64, ET_SUM) == ET_OK && largest == 1.5);
  CHECK(et_reduce_values_in(session, 3, NULL, 1, ET_FLOAT64, ET_SUM) == ET_ERROR_INVALID);
  all = 0;
  CHECK(et_all_gather_in(session, 3, &mine, sizeof mine, &all, &size) == ET_OK && all == 5 && size == 1);
  CHECK(et_all_gather_in(session, 3, &mine, sizeof mine, &all, NULL) == ET_ERROR_INVALID);
  CHECK(et_broadcast_in(session, 3, &mine, sizeof mine, 7) == ET_OK && mine == 5);
  CHECK(et_barrier(session) == ET_OK);
  CHECK(et_step_memory(session, sizeof mine, &memory) == ET_OK && memory != NULL);
  CHECK(et_step_memory(session, sizeof mine, NULL) == ET_ERROR_INVALID);
}

/* Batches of 30, 30, 30 and 10 in each of three epochs. */
static void looks_ahead(et_session* session, const et_batch* batch) {
  uint64_t samples[35] = {0}, sizes[8] = {0};
  size_t count = 35;
  uint32_t batches = 0;
  const uint64_t next = batch->step + 1;
  CHECK(et_look_ahead(session, 8, samples, &count, sizes, &batches) == ET_OK);
  CHECK(batches == (next > 12 ? 0 : 1)); /* the second one does not fit */
  if (next <= 12) CHECK(sizes[0] == (next % 4 == 0 ? 10 : 30) && count == sizes[0]);
}

static void has_a_board(et_session* session) {
  char text[4] = "";
  size_t bytes = sizeof text;
  int found = 1;
  CHECK(et_board_get(session, "place", 0, text, &bytes, &found) == ET_OK && found == 0);
  CHECK(et_board_put(session, "place", "abc", 3) == ET_OK);
  bytes = 2;
  CHECK(et_board_get(session, "place", 0, text, &bytes, &found) == ET_OK && found == 1 && bytes == 3 && text[0] == 0);
  CHECK(et_board_get(session, "place", 0, text, &bytes, &found) == ET_OK && strcmp(text, "abc") == 0);
  CHECK(et_board_put(session, "", "abc", 3) == ET_ERROR_SESSION);
  CHECK(et_board_put(session, "place", NULL, 3) == ET_ERROR_INVALID);
  CHECK(et_board_get(session, "place", 0, NULL, NULL, &found) == ET_ERROR_INVALID);
}

static void has_devices(et_session* session) {
  CHECK(et_device_memory(session, 2, 1) == ET_OK && et_device_memory(session, 1, 2) == ET_ERROR_SESSION);
  CHECK(et_device_memory(NULL, 2, 1) == ET_ERROR_INVALID);
}

static void has_early_values(et_session* session) {
  char text[4] = "";
  size_t bytes = 0;
  static float statistics[2], best[2], own[2];
  const uint64_t two[1] = {2};
  CHECK(et_on_other_layout(session, "/parts", refuse_other_layout, NULL) == ET_OK);
  CHECK(et_on_other_layout(session, NULL, refuse_other_layout, NULL) == ET_ERROR_INVALID);
  CHECK(et_share_early(session, "layout", "abc", 3) == ET_OK);
  CHECK(et_share_forward_tensor(session, "statistics", statistics, "F32", two, 1) == ET_OK);
  CHECK(et_share_forward_tensor(session, "statistics", NULL, "F32", two, 1) == ET_ERROR_SESSION);
  CHECK(et_share_first_tensor(session, "best", best, "F32", two, 1, 2) == ET_OK);
  CHECK(et_share_first_tensor(session, "never", best, "F32", two, 1, 0) == ET_ERROR_SESSION);
  CHECK(et_share_tensor_through(session, "elsewhere", "F32", two, 1, read_zeros, forget, NULL) == ET_OK);
  CHECK(et_share_tensor_through(session, "elsewhere", "F32", two, 1, read_zeros, forget, NULL) == ET_ERROR_SESSION);
  CHECK(et_share_tensor_through(session, "nowhere", "F32", two, 1, NULL, forget, NULL) == ET_ERROR_INVALID);
  CHECK(et_share_local_state(session, "own values", own, sizeof own) == ET_OK);
  CHECK(et_share_local_state(session, "own values", own, sizeof own) == ET_ERROR_SESSION);
  CHECK(et_share_local_state(session, "no values", NULL, sizeof own) == ET_ERROR_INVALID);
  CHECK(et_early(session, "layout", NULL, &bytes) == ET_OK && bytes == 3);
  CHECK(et_early(session, "layout", text, &bytes) == ET_OK && strcmp(text, "abc") == 0);
  CHECK(et_early(session, "other", text, &bytes) == ET_ERROR_INVALID);
}

static void has_small_values(et_session* session) {
  has_early_values(session);
  has_devices(session);
  has_a_board(session);
}

static void before_step(const et_batch* batch, void* user_data) {
  uint64_t* steps = user_data;
  CHECK(batch->size == sizeof(et_batch) && batch->step > steps[0]);
  steps[0] = batch->step;
}

static void after_step(const et_step_report* report, void* user_data) {
  uint64_t* steps = user_data;
  CHECK(report->size == sizeof(et_step_report) && report->samples > 0);
  steps[1] = steps[0];
}

/* In a step. */
static void starts_values(et_session* session) {
  double value = 1.5;
  uint32_t mine = 5;
  CHECK(et_reduce_values_async(session, "value", &value, 1, ET_FLOAT64, ET_SUM) == ET_OK);
  CHECK(et_reduce_values_async(session, "value", &value, 1, ET_FLOAT64, ET_SUM) == ET_ERROR_SESSION);
  CHECK(et_reduce_values_async(session, NULL, &value, 1, ET_FLOAT64, ET_SUM) == ET_ERROR_INVALID);
  CHECK(et_reduce_values_async(session, "other", &value, 1, (et_type)8, ET_SUM) == ET_ERROR_INVALID);
  CHECK(et_broadcast_async(session, "mine", &mine, sizeof mine, 0) == ET_OK);
  CHECK(et_broadcast_async(session, "", &mine, sizeof mine, 0) == ET_ERROR_SESSION);
  CHECK(et_wait_all_reduce(session) == ET_OK && value == 1.5 && mine == 5);
}

static void uses_its_step(et_session* session, const et_batch* batch) {
  reports_halves(session, batch->step == 1);
  uses_the_store(session, batch->step);
  looks_ahead(session, batch);
  shares_values(session);
  starts_values(session);
  has_attachments(session);
}

/* Least squares on y = 3 x with one weight; ends close to 3. */
static void trains(void) {
  et_session* session = NULL;
  float weight = 0, own = 2.5f;
  int changes = 0, go = 0;
  uint64_t seen = 0;
  et_data_options data = ET_DATA_OPTIONS_INIT;
  et_batch batch = ET_BATCH_INIT;
  et_step_metrics metrics = ET_STEP_METRICS_INIT;
  et_step_report report = ET_STEP_REPORT_INIT;
  et_monitors monitors = ET_MONITORS_INIT;
  uint64_t hooked[2] = {0, 0};

  CHECK(et_session_create(&session) == ET_OK && (in_training = session) != NULL);
  CHECK(et_step_hooks(session, before_step, after_step, hooked) == ET_OK);
  has_no_device(session);
  CHECK(et_share_model(session, "weight", &weight, 1) == ET_OK);
  CHECK(et_share_state(session, "own", &own, sizeof own) == ET_OK);
  CHECK(et_request_resize(session, 2) == ET_ERROR_SESSION);
  CHECK(et_measure_gradient_variance(session, 4) == ET_OK);
  CHECK(et_enable_store(session) == ET_OK);
  data.sample_count = 100;
  data.epochs = 3;
  data.batch = 30;
  CHECK(et_set_data(session, &data) == ET_OK);
  CHECK(et_on_change(session, count_change, &changes) == ET_OK);
  has_small_values(session);
  CHECK(et_barrier(session) == ET_ERROR_SESSION);
  CHECK(et_start(session, &go) == ET_OK && go == 1);
  CHECK(et_phase(session, "evaluation") == ET_OK && et_phase(session, NULL) == ET_OK);
  CHECK(et_phase(session, "lunch") == ET_ERROR_SESSION);
  while (et_next_batch(session, &batch, &go) == ET_OK && go) {
    float gradient = 0;
    uint64_t i;
    for (i = 0; i < batch.local_samples; ++i) {
      const float x = (float)batch.samples[i] / 100.0f;
      gradient += 2 * (weight - 3) * x * x / (float)batch.local_samples;
    }
    seen += batch.local_samples;
    CHECK(et_all_reduce_async(session, &gradient, 1) == ET_OK);
    CHECK(et_wait_all_reduce(session) == ET_OK);
    uint16_t narrow = 0x3f80; /* 1 in bfloat16 */
    CHECK(et_all_reduce_typed(session, &narrow, 1, ET_BFLOAT16) == ET_OK);
    CHECK(et_all_reduce_typed_async(session, &narrow, 1, ET_BFLOAT16) == ET_OK);
    CHECK(et_wait_all_reduce(session) == ET_OK);
    CHECK(narrow == 0x3f80);
    uses_its_step(session, &batch);
    CHECK(et_share_early(session, "layout", "xyz", 3) == ET_OK);
    CHECK(et_sum(session, &own, 1) == ET_OK && et_broadcast(session, &own, sizeof own) == ET_OK && own == 2.5f);
    weight -= (float)et_learning_rate_factor(session) * gradient;
    metrics.loss = 0.25;
    CHECK(et_commit_step(session, &metrics) == ET_OK);
    shares_values(session);
    CHECK(et_share_early(session, "layout", "xyz", 3) == ET_ERROR_SESSION);
  }
  shares_values(session);
  CHECK(et_outcome_of(session) == ET_OUTCOME_FINISHED);
  CHECK(seen == 300 && et_committed_step(session) == 12);
  CHECK(hooked[0] == 12 && hooked[1] == 12);
  CHECK(fabsf(weight - 3) < 0.1f);
  CHECK(changes == 1);
  CHECK(et_last_step(session, &report) == ET_OK && report.loss == 0.25 && report.samples == 10);
  CHECK(et_rank(session) == 0 && et_world_size(session) == 1 && !et_launched(session));
  CHECK(et_note(session, "accuracy", "1") == ET_OK);
  CHECK(et_get_monitors(session, &monitors) == ET_OK && monitors.size == sizeof monitors);
  CHECK(monitors.has_noise_scale && monitors.gradient_variance < 1e-6 && monitors.step_us > 0);
  has_no_peers(session);
  asks(session);
  CHECK(et_finish(session) == ET_OK);
  et_session_destroy(session);
}

/* The structs as a program built against a header with fewer fields knows them. */
typedef struct old_options {
  size_t size;
  uint64_t sample_count;
} old_options;
typedef struct old_batch {
  size_t size;
  uint64_t step;
} old_batch;

static void serves_older_callers(void) {
  et_session* session = NULL;
  old_options options = {sizeof(old_options), 10};
  struct {
    old_batch batch;
    unsigned char guard[64];
  } memory;
  int go = 0;
  size_t i;
  memset(&memory, 0x5a, sizeof memory);
  memory.batch.size = sizeof(old_batch);
  CHECK(et_session_create(&session) == ET_OK);
  CHECK(et_set_data(session, (const et_data_options*)(const void*)&options) == ET_OK);
  CHECK(et_start(session, &go) == ET_OK && go);
  CHECK(et_next_batch(session, (et_batch*)(void*)&memory.batch, &go) == ET_OK && go);
  CHECK(memory.batch.size == sizeof(old_batch) && memory.batch.step == 1);
  for (i = 0; i < sizeof memory.guard; ++i) CHECK(memory.guard[i] == 0x5a);
  CHECK(et_commit_step(session, NULL) == ET_OK);
  CHECK(et_next_batch(session, (et_batch*)(void*)&memory.batch, &go) == ET_OK && !go);
  et_session_destroy(session);
}

typedef struct newer_options {
  et_data_options known;
  uint64_t unknown;
} newer_options;

static void refuses_what_it_does_not_know(void) {
  et_session* session = NULL;
  newer_options newer = {ET_DATA_OPTIONS_INIT, 0};
  et_data_options unset;
  memset(&unset, 0, sizeof unset);
  unset.size = sizeof unset;
  unset.batch = 8;
  unset.drop_last = 1;
  newer.known.size = sizeof newer;
  CHECK(et_session_create(&session) == ET_OK);
  CHECK(et_set_data(session, &newer.known) == ET_OK);
  CHECK(et_set_data(session, &unset) == ET_OK);
  unset.size = 0;
  newer.unknown = 7;
  CHECK(et_set_data(session, &newer.known) == ET_ERROR_INVALID);
  CHECK(et_set_data(session, &unset) == ET_ERROR_INVALID);
  CHECK(strstr(et_last_error(), "size") != NULL);
  et_session_destroy(session);
}

static void ends_its_data(void) {
  et_session* session = NULL;
  et_data_options data = ET_DATA_OPTIONS_INIT;
  et_batch batch = ET_BATCH_INIT;
  int go = 0;
  data.sample_count = 100;
  CHECK(et_session_create(&session) == ET_OK && et_set_data(session, &data) == ET_OK);
  CHECK(et_end_data(session) == ET_ERROR_SESSION);
  CHECK(et_start(session, &go) == ET_OK && et_next_batch(session, &batch, &go) == ET_OK && go);
  CHECK(et_end_data(session) == ET_OK && et_commit_step(session, NULL) == ET_OK);
  CHECK(et_next_batch(session, &batch, &go) == ET_OK && !go);
  CHECK(et_outcome_of(session) == ET_OUTCOME_FINISHED && et_committed_step(session) == 1);
  et_session_destroy(session);
}

static void reports_misuse_as_statuses(void) {
  et_session* session = NULL;
  et_batch batch = ET_BATCH_INIT;
  int go = 1;
  CHECK(et_session_create(NULL) == ET_ERROR_INVALID);
  CHECK(et_start(NULL, &go) == ET_ERROR_INVALID);
  CHECK(et_session_create(&session) == ET_OK);
  CHECK(et_next_batch(session, &batch, &go) == ET_ERROR_SESSION && go == 0);
  CHECK(strstr(et_last_error(), "start()") != NULL);
  CHECK(et_share_state(session, "w", NULL, 4) == ET_ERROR_SESSION);
  CHECK(et_all_reduce(session, NULL, 4) == ET_ERROR_INVALID);
  CHECK(et_all_reduce_typed(session, NULL, 4, ET_FLOAT16) == ET_ERROR_INVALID);
  CHECK(et_all_reduce_device_typed(session, NULL, 4, ET_FLOAT16, NULL) == ET_ERROR_INVALID);
  CHECK(et_all_reduce_device_typed_async(session, NULL, 4, ET_FLOAT16, NULL) == ET_ERROR_INVALID);
  CHECK(et_rank(NULL) == 0 && et_outcome_of(NULL) == ET_OUTCOME_STOPPED);
  et_session_destroy(session);
  et_session_destroy(NULL);
}

typedef struct elsewhere {
  et_plane* plane;
  et_plane_sum sum;
  int starts, finishes;
} elsewhere;

static int starts_elsewhere(const et_sum_elsewhere* sum, char* problem, size_t room, void* user_data) {
  elsewhere* own = user_data;
  unsigned char endpoint[ET_PLANE_ENDPOINT_BYTES], all[ET_PLANE_ENDPOINT_BYTES];
  et_plane_world world = ET_PLANE_WORLD_INIT;
  (void)problem, (void)room;
  ++own->starts;
  CHECK(sum->size == sizeof *sum && sum->world_size == 1 && sum->wants_norms == 1 && sum->has_input == 1);
  CHECK(sum->bucket == 0 && sum->rank == 0 && sum->scale == 1 && sum->keeps == 0 && sum->is_kept == 0);
  CHECK(et_exchange_is_broken(sum->exchange) == 0 && et_exchange_is_broken(NULL) == 1);
  CHECK(et_plane_endpoint(own->plane, endpoint) == ET_OK && et_plane_endpoint(own->plane, NULL) == ET_ERROR_INVALID);
  CHECK(et_exchange_all_gather(sum->exchange, endpoint, sizeof endpoint, all) == ET_OK);
  CHECK(memcmp(endpoint, all, sizeof all) == 0);
  CHECK(et_exchange_all_gather(sum->exchange, NULL, sizeof endpoint, all) == ET_ERROR_INVALID);
  world.generation = sum->generation;
  memcpy(world.token, sum->token, sizeof world.token);
  world.encryption = sum->encryption;
  world.world_size = sum->world_size;
  CHECK(et_plane_build(own->plane, &world) == ET_ERROR_INVALID);
  world.endpoints = all;
  CHECK(et_plane_build(own->plane, &world) == ET_OK);
  own->sum.step = sum->step;
  own->sum.scale = sum->scale;
  own->sum.wants_norms = sum->wants_norms;
  return 0;
}

static int ends_elsewhere(et_sums_elsewhere* sums, char* problem, size_t room, void* user_data) {
  elsewhere* own = user_data;
  char none;
  ++own->finishes;
  CHECK(sums->size == sizeof *sums && !sums->failed && et_exchange_is_broken(sums->exchange) == 0);
  CHECK(et_exchange_all_gather(sums->exchange, &none, 1, &none) == ET_ERROR_INVALID);
  CHECK(et_plane_all_reduce(own->plane, &own->sum) == ET_OK);
  sums->local_square_sum = own->sum.local_square_sum;
  sums->reduced_square_sum = own->sum.reduced_square_sum;
  if (own->finishes == 1) return 0;
  snprintf(problem, room, "the second time is one too many");
  return 1;
}

/* Alone in the steps that measure norms: the first one and the 17th. */
static void sums_elsewhere(void) {
  et_session* session = NULL;
  et_batch batch = ET_BATCH_INIT;
  et_step_report report = ET_STEP_REPORT_INIT;
  elsewhere own = {NULL, ET_PLANE_SUM_INIT, 0, 0};
  float values[2] = {3, 4};
  int go = 0, step;
  CHECK(et_plane_open(NULL) == ET_ERROR_INVALID && et_plane_open(&own.plane) == ET_OK);
  own.sum.data = values;
  own.sum.count = 2;
  CHECK(et_plane_all_reduce(own.plane, &own.sum) == ET_ERROR_SESSION);
  CHECK(et_session_create(&session) == ET_OK && et_start(session, &go) == ET_OK);
  for (step = 1; step <= 17; ++step) {
    CHECK(et_next_batch(session, &batch, &go) == ET_OK && go);
    CHECK(et_all_reduce_elsewhere_async(session, starts_elsewhere, NULL, &own) == ET_ERROR_INVALID);
    CHECK(et_all_reduce_elsewhere_async(session, starts_elsewhere, ends_elsewhere, &own) == ET_OK);
    CHECK(et_wait_all_reduce(session) == (step == 17 ? ET_ERROR_SESSION : ET_OK));
    if (step == 17) break;
    CHECK(et_commit_step(session, NULL) == ET_OK);
    CHECK(own.starts == 1 && own.finishes == 1 && values[0] == 3 && values[1] == 4);
  }
  CHECK(strstr(et_last_error(), "one too many") != NULL);
  CHECK(own.starts == 2 && own.finishes == 2);
  CHECK(et_last_step(session, &report) == ET_OK && report.gradient_norm == 5);
  CHECK(et_plane_abort(NULL, 0) == ET_ERROR_INVALID && et_plane_abort(own.plane, 0) == ET_OK);
  CHECK(et_plane_all_reduce(own.plane, &own.sum) == ET_ERROR_INTERRUPTED);
  own.sum.size = 0;
  CHECK(et_plane_all_reduce(own.plane, &own.sum) == ET_ERROR_INVALID);
  et_session_destroy(session);
  et_plane_close(own.plane);
  et_plane_close(NULL);
}

static void helps_a_worker(void) {
  et_ignore_notices(1);
  CHECK(raise(SIGINT) == 0);
}

int main(void) {
  trains();
  ends_its_data();
  serves_older_callers();
  refuses_what_it_does_not_know();
  reports_misuse_as_statuses();
  sums_elsewhere();
  CHECK(strlen(et_version()) > 0);
  helps_a_worker();
  if (failures == 0) puts("the C API does what its header says");
  return failures == 0 ? 0 : 1;
}
