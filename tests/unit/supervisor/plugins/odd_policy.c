/* Purpose: a policy in C99 that misbehaves as its argument says: answers "argument" as if it were a decision, or not at
 * all ("silent"), or twice ("twice"), or refuses to be made ("refuse"). With OLD it is of another version. */
#include <elastictrain/policy.h>
#include <stdlib.h>
#include <string.h>

static void* create(const char* argument, uint64_t seed, elastictrain_policy_say say, void* context) {
  char* memory;
  (void)seed;
  if (strcmp(argument, "refuse") == 0) {
    say(context, "not today", strlen("not today"));
    return NULL;
  }
  memory = malloc(strlen(argument) + 1);
  return memory == NULL ? NULL : strcpy(memory, argument);
}

static void decide(void* state, const char* view, size_t bytes, elastictrain_policy_say say, void* context) {
  const char* argument = state;
  if (strcmp(argument, "silent") == 0 || bytes != strlen(view)) return;
  say(context, argument, strlen(argument));
  if (strcmp(argument, "twice") == 0) say(context, argument, strlen(argument));
}

static void destroy(void* state) {
  free(state);
}

#ifdef OLD
static const elastictrain_policy_v1 policy = {ELASTICTRAIN_POLICY_VERSION + 1, create, decide, destroy};
#else
static const elastictrain_policy_v1 policy = {ELASTICTRAIN_POLICY_VERSION, create, decide, destroy};
#endif

const elastictrain_policy_v1* elastictrain_policy(uint32_t version) {
  (void)version;
  return &policy;
}
