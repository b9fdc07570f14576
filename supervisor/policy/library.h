// Purpose: a policy in a shared object (elastictrain/policy.h): as text, and with the interface of a run's policy.
//
// Ownership: both hold only a pointer into the shared object, which stays loaded until the process exits.
// Errors: kInvalid with the path and what to do. A decision that cannot be read keeps the size, with the reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "heuristics/policy/policy.h"
#include "supervisor/protocol/result.h"

struct elastictrain_policy_v1;

namespace elastictrain::policy {

// One state of a shared object's policy.
class LibraryText {
 public:
  static Result<std::unique_ptr<LibraryText>> open(const std::string& path, const std::string& argument,
                                                   std::uint64_t seed);
  LibraryText(const elastictrain_policy_v1& api, const std::string& argument, std::uint64_t seed);
  ~LibraryText();
  LibraryText(const LibraryText&) = delete;
  LibraryText& operator=(const LibraryText&) = delete;

  // The text of its decision. kInvalid: it gave none, or several.
  Result<std::string> decide(const std::string& view);

 private:
  friend Result<std::unique_ptr<heuristics::Policy>> load_library(const std::string&, const std::string&,
                                                                  std::uint64_t);
  const elastictrain_policy_v1& api_;
  void* handle_ = nullptr;
  std::string refusal_;  // why there is no handle
};

Result<std::unique_ptr<heuristics::Policy>> load_library(const std::string& path, const std::string& argument,
                                                         std::uint64_t seed);

}  // namespace elastictrain::policy
