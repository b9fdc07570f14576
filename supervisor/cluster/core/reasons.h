// Purpose: reasons for the slots that a job has, in words, as queue and explain show them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "heuristics/sharing/view.h"

namespace elastictrain::jobs {

struct Given {
  std::string policy;
  std::string said;         // by a policy from outside
  std::uint32_t slots = 0;  // within the job's sizes, limits and hosts
  double used_slot_s = 0;   // by the job so far
  double now_s = 0;
};

std::string reason_of(const Given& given, const heuristics::sharing::Grant& grant);

// A number in three digits, or without decimals.
std::string number_text(double number);

}  // namespace elastictrain::jobs
