/* Purpose: the interface of an external policy as a shared object: `policy.library = "path.so"`. It receives views and
 * returns decisions as JSON text; supervisor/policy/README.md describes their fields. Plain C99.
 *
 * Threads: all calls come from one thread of the run's supervisor, one at a time. Time: decide() blocks the run's
 * supervisor while it works, so it must return within a millisecond; a slower policy belongs in a program
 * (`policy.program`). Ownership: text that is passed on belongs to the side that passes it and is copied by the other
 * side before the call returns. Errors: as described at each member; no exception may pass through these calls.
 */
#ifndef ELASTICTRAIN_POLICY_H
#define ELASTICTRAIN_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define ELASTICTRAIN_POLICY_VERSION 1u

#if defined(__GNUC__)
#define ELASTICTRAIN_POLICY_EXPORT __attribute__((visibility("default")))
#else
#define ELASTICTRAIN_POLICY_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* How a policy returns text: `text` of `bytes` bytes, with the `context` that was passed with this function. */
typedef void (*elastictrain_policy_say)(void* context, const char* text, size_t bytes);

typedef struct elastictrain_policy_v1 {
  uint32_t version; /* ELASTICTRAIN_POLICY_VERSION */

  /* Returns a new state; `argument` is policy.argument ("" if it is not set), `seed` is policy.seed, for random
   * choices. NULL: creation failed, and say() received the reason; the run does not start. */
  void* (*create)(const char* argument, uint64_t seed, elastictrain_policy_say say, void* context);

  /* One view in (ends with a zero byte), one decision out through say(), at most once; without one the size stays. The
   * same views to a state of the same argument and seed must give the same decisions: `elastictrain explain` relies on
   * it. */
  void (*decide)(void* state, const char* view_json, size_t bytes, elastictrain_policy_say say, void* context);

  void (*destroy)(void* state);
} elastictrain_policy_v1;

/* The function that a shared object exports. NULL: it has no policy of that version. The returned object must exist as
 * long as the process. */
ELASTICTRAIN_POLICY_EXPORT const elastictrain_policy_v1* elastictrain_policy(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
