/* Training programs for what a library call promises in a real run; the first argument says which. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "elastictrain/elastictrain.h"

enum { kSize = 64 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, et_last_error());
  return 1;
}

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* A data loader's process, and its garbage collector. */
static int fork_children(et_session* session) {
  int i;
  for (i = 0; i < 2; ++i) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
      float value = 0;
      if (et_all_reduce(session, &value, 1) != ET_ERROR_SESSION || getenv("ELASTICTRAIN_SOCKET") != NULL) _exit(3);
      et_session_destroy(session);
      exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return failed("the child");
  }
  return 0;
}

/* An evaluation on all workers; a loss ends it. */
static int evaluate(et_session* session) {
  double worst = et_rank(session);
  uint64_t ranks[64] = {0}, rank = et_rank(session), i;
  et_status status = et_phase(session, "evaluation");
  sleep_ms(20);
  if (status == ET_OK) status = et_reduce_values(session, &worst, 1, ET_FLOAT64, ET_MAX);
  if (status == ET_OK) status = et_all_gather(session, &rank, sizeof rank, ranks);
  if (status == ET_ERROR_INTERRUPTED) {
    et_note(session, "interrupted", et_last_error());
    return et_phase(session, NULL) == ET_OK ? 0 : failed("the phase's end");
  }
  if (status != ET_OK) return failed("the evaluation");
  if (worst != et_world_size(session) - 1) return failed("the maximum");
  for (i = 0; i < et_world_size(session); ++i) {
    if (ranks[i] != i) return failed("what was gathered");
  }
  return et_phase(session, NULL) == ET_OK ? 0 : failed("the phase's end");
}

/* "step" is that of the last committed step: a joiner must have it when it starts. */
static int has_early_step(et_session* session) {
  uint64_t step = 0;
  size_t bytes = sizeof step;
  if (et_early(session, "step", &step, &bytes) != ET_OK || bytes != sizeof step) return failed("the early value");
  if (step != et_committed_step(session)) return failed("another step's early value");
  return 0;
}

/* Before the step's sums. */
static int act(et_session* session, const char* mode, const et_batch* batch) {
  if (strcmp(mode, "end") == 0 && batch->step == 40 && et_rank(session) == 1) {
    return et_end_data(session) == ET_OK ? 0 : failed("the end");
  }
  if (strcmp(mode, "early") == 0) {
    if (has_early_step(session) != 0) return 1;
    return et_share_early(session, "step", &batch->step, sizeof batch->step) == ET_OK ? 0 : failed("the early value");
  }
  if (strcmp(mode, "fork") == 0 && batch->step % 20 == 0) return fork_children(session);
  if (strcmp(mode, "phase") == 0 && batch->step == 200 && et_rank(session) == 1) {
    const char* ms = getenv("PHASE_MS");
    if (et_phase(session, "data") != ET_OK) return failed("the phase");
    sleep_ms(atol(ms == NULL ? "0" : ms));
    if (et_phase(session, NULL) != ET_OK) return failed("the phase's end");
  }
  return 0;
}

static int step(et_session* session, const char* mode, const et_batch* batch, float* weights) {
  float gradient[kSize];
  int i;
  for (i = 0; i < kSize; ++i) gradient[i] = weights[i] * 0.01f + (float)batch->local_samples;
  sleep_ms(5);
  if (act(session, mode, batch) != 0) return 1;
  if (et_all_reduce(session, gradient, kSize) != ET_OK) return failed("the gradient");
  for (i = 0; i < kSize; ++i) weights[i] -= 0.1f * gradient[i];
  return et_commit_step(session, NULL) == ET_OK ? 0 : failed("the step");
}

/* Odd sizes before it must not spoil the alignment of a tensor in a checkpoint. */
static int share(et_session* session, const char* mode, float* weights) {
  static unsigned char mask[3] = {1, 2, 3};
  const uint64_t shape[2] = {8, kSize / 8};
  if (strcmp(mode, "tensors") != 0) {
    return et_share_state(session, "weights", weights, kSize * sizeof *weights) == ET_OK ? 0 : failed("the state");
  }
  if (et_share_state(session, "mask", mask, sizeof mask) != ET_OK) return failed("the state");
  return et_share_tensor(session, "model.weight", weights, "F32", shape, 2) == ET_OK ? 0 : failed("the tensor");
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  et_session* session = NULL;
  et_data_options data = ET_DATA_OPTIONS_INIT;
  et_batch batch = ET_BATCH_INIT;
  float weights[kSize] = {0};
  int go = 0;
  const uint64_t none = 0;
  data.sample_count = 100000;
  data.epochs = 1000;
  if (strcmp(mode, "end") != 0) data.max_steps = 300;
  if (strcmp(mode, "own_seed") == 0) data.seed = (uint64_t)getpid();
  if (et_session_create(&session) != ET_OK || share(session, mode, weights) != 0 ||
      et_set_data(session, &data) != ET_OK || et_share_early(session, "step", &none, sizeof none) != ET_OK ||
      et_start(session, &go) != ET_OK) {
    return failed("the start");
  }
  if (strcmp(mode, "early") == 0 && go && has_early_step(session) != 0) return 1;
  while (go) {
    if (et_next_batch(session, &batch, &go) != ET_OK) return failed("the batch");
    if (go && step(session, mode, &batch, weights) != 0) return 1;
    if (go && strcmp(mode, "evaluate") == 0 && evaluate(session) != 0) return 1;
  }
  if (strcmp(mode, "evaluate") == 0 && et_outcome_of(session) == ET_OUTCOME_FINISHED) {
    sleep_ms(et_rank(session) == 0 ? 3000 : 0);
    if (evaluate(session) != 0) return 1;
    et_note(session, "evaluated", "at the end");
  }
  et_session_destroy(session);
  return 0;
}
