// Purpose: turns one mutant on in a build that contains all of them: the one that the environment's MUTANT names.
// Only copies of product files include this (mutants.py).
#pragma once

#include <cstdlib>
#include <cstring>

namespace elastictrain_mutants {

inline bool is_on(const char* name) {
  static const char* const chosen = std::getenv("MUTANT");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

}  // namespace elastictrain_mutants
