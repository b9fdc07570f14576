/* Purpose: a policy from outside as a shared object: `policy.library = "path.so"`. It gets views and gives decisions as
 * JSON texts; supervisor/policy/README.md says what stands in them. Plain C99.
 *
 * Threads: all calls come from one thread of the run's supervisor, one at a time. Time: decide() holds up the run's
 * supervision while it works, so it must answer within a millisecond; what takes longer belongs into a program
 * (`policy.program`). Ownership: texts that are passed on belong to whoever passes them and are copied by the other
 * side before the call returns. Errors: as said at each member; nothing may be thrown through these calls.
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

/* How a policy says something: `text` of `bytes` bytes, with the `context` that came with this function. */
typedef void (*elastictrain_policy_say)(void* context, const char* text, size_t bytes);

typedef struct elastictrain_policy_v1 {
  uint32_t version; /* ELASTICTRAIN_POLICY_VERSION */

  /* A new memory; `argument` is policy.argument ("" if it is not set), `seed` is policy.seed, for random choices.
   * NULL: it cannot be, and say() was told why; the run does not start. */
  void* (*create)(const char* argument, uint64_t seed, elastictrain_policy_say say, void* context);

  /* One view in (ends with a zero byte), one decision out through say(), at most once; without one the size stays. The
   * same views to a memory of the same argument and seed must give the same decisions: `elastictrain explain` relies on
   * it. */
  void (*decide)(void* state, const char* view_json, size_t bytes, elastictrain_policy_say say, void* context);

  void (*destroy)(void* state);
} elastictrain_policy_v1;

/* The one function that a shared object exports. NULL: it has no policy of that version. What is returned must last as
 * long as the process. */
ELASTICTRAIN_POLICY_EXPORT const elastictrain_policy_v1* elastictrain_policy(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
