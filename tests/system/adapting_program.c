/* A training program that adapts its own run: it starts by averaging models, asks for another size by a schedule, reads
 * what another worker has saved, and asks for averaged gradients in the end. Least squares on y = 3 x. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include "elastictrain/elastictrain.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, et_last_error());
  return 1;
}

static int step(et_session* session, const et_batch* batch, float* weight) {
  const struct timespec compute = {0, 5000000};
  float gradient = 0, hits = (float)batch->local_samples, theirs = 0;
  uint32_t size = 1;
  uint64_t i, version = 0;
  char text[32];
  if (et_step_based_schedule("2:60,3:60", batch->step, &size) != ET_OK) return failed("the schedule");
  if (et_request_resize(session, size) != ET_OK) return failed("the size");
  if (et_world_size(session) == 3 && et_request_synchronization(session, ET_SYNCHRONIZATION_GRADIENTS) != ET_OK) {
    return failed("the synchronization");
  }
  nanosleep(&compute, NULL);
  for (i = 0; i < batch->local_samples; ++i) {
    const float x = (float)batch->samples[i] / 4000.0f;
    gradient += 2 * (*weight - 3) * x * x / (float)batch->local_samples;
  }
  if (et_all_reduce(session, &gradient, 1) != ET_OK) return failed("the gradient");
  if (et_sum(session, &hits, 1) != ET_OK) return failed("the sum");
  if (et_save(session, "weight", weight, sizeof *weight, batch->step) != ET_OK) return failed("the store");
  if (et_request(session, (et_rank(session) + 1) % et_world_size(session), "weight", &theirs, sizeof theirs,
                 &version) != ET_OK) {
    return failed("the request");
  }
  *weight -= 0.05f * gradient;
  if (batch->step % 50 == 0) {
    et_monitors monitors = ET_MONITORS_INIT;
    if (et_get_monitors(session, &monitors) != ET_OK) return failed("the monitors");
    snprintf(text, sizeof text, "%.0f", (double)hits);
    et_note(session, "samples_of_all", text);
    et_note(session, "read_from_a_peer", version != 0 ? "yes" : "no");
    snprintf(text, sizeof text, "%.3g", monitors.gradient_variance);
    et_note(session, "gradient_variance", text);
  }
  return et_commit_step(session, NULL) == ET_OK ? 0 : failed("the step");
}

int main(void) {
  et_session* session = NULL;
  et_data_options data = ET_DATA_OPTIONS_INIT;
  et_batch batch = ET_BATCH_INIT;
  float weight = 0;
  char text[32];
  int go = 0, last_steps = 0;
  data.sample_count = 4000;
  data.epochs = 1000;
  if (et_session_create(&session) != ET_OK || et_share_model(session, "weight", &weight, 1) != ET_OK ||
      et_set_data(session, &data) != ET_OK || et_enable_store(session) != ET_OK ||
      et_measure_gradient_variance(session, 10) != ET_OK || et_start(session, &go) != ET_OK) {
    return failed("the start");
  }
  while (go) {
    if (et_next_batch(session, &batch, &go) != ET_OK) return failed("the batch");
    if (go && step(session, &batch, &weight) != 0) return 1;
    /* The same on all workers: they end in one step. */
    if (et_world_size(session) == 3 && et_synchronization_of(session) == ET_SYNCHRONIZATION_GRADIENTS &&
        ++last_steps == 100) {
      break;
    }
  }
  snprintf(text, sizeof text, "%.3f", (double)weight);
  et_note(session, "weight", text);
  et_finish(session);
  et_session_destroy(session);
  return 0;
}
