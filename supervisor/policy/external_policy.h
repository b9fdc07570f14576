// Purpose: policies from outside elastictrain: what shared objects and programs have in common, and a policy in a
// shared object (elastictrain/policy.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/protocol/result.h"

// The common part of external policies, shared objects and programs.

namespace elastictrain::policy {

// The reason code of "the size stays" when an external policy does not work.
inline constexpr const char* kPolicyFailed = "policy_failed";

// At most one of the two is set.
struct Outside {
  std::string library;               // path of a shared object
  std::string argument;              // passed on to it
  std::vector<std::string> program;  // with its arguments
  std::uint64_t timeout_ms = 1'000;  // for the program to answer, and to exit
  const char* key = "policy.program";
  const char* answer = "decision";  // what a line of the program is called
  std::string directory;            // in which the program is started; empty: this process's
};

// One decision about one job; a missing reason is reported as missing. kInvalid with what is wrong.
Result<heuristics::Decision> read_decision(std::string_view text);

// The name for people of a program or a shared object: that of its file, without an interpreter before it.
std::string short_name(const Outside& outside);

// Keeps the size of the run's one job.
heuristics::Decision failed_decision(const std::string& why);

// Decides whatever `next` holds: lets a program's answer take part in the composition around a policy.
std::unique_ptr<heuristics::Policy> relay(std::shared_ptr<const heuristics::Decision> next);

// Checks whether it can be used: loads the library, looks for the program without running it. kInvalid with the path
// and what to do.
Status check_outside(const Outside& outside, std::uint64_t seed);

}  // namespace elastictrain::policy

// A policy in a shared object (elastictrain/policy.h): as text, and with the interface of a run's policy.
//
// Ownership: both hold only a pointer into the shared object, which stays loaded until the process exits.
// Errors: kInvalid with the path and what to do. A decision that cannot be read keeps the size, with the reason.

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
