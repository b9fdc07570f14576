// Purpose: a policy in a shared object (elastictrain/policy.h), with the interface of any other policy.
//
// Ownership: the policy holds only a pointer into the shared object, which stays loaded until the process exits.
// Errors: kInvalid with the path and what to do. A decision that cannot be read keeps the size, with the reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "heuristics/policy/policy.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

Result<std::unique_ptr<heuristics::Policy>> load_library(const std::string& path, const std::string& argument,
                                                         std::uint64_t seed);

}  // namespace elastictrain::policy
