// Purpose: makes each built-in sharing policy; one file a policy holds what it does and where it comes from.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/sharing/policy.h"

namespace elastictrain::heuristics::sharing {

struct OptimusOptions {
  double young_s = 0;  // a job is young until it has run for so long
  double young_factor = 0.95;
};

struct AfsOptions {
  bool scan = false;            // compare all jobs for every slot
  bool one_each_first = false;  // as in the authors' simulator
};

struct PolluxOptions {
  std::uint64_t exact_up_to = 20'000'000;  // sums, some 20 ms
};

std::unique_ptr<SharingPolicy> make_fifo();
std::unique_ptr<SharingPolicy> make_srtf();
std::unique_ptr<SharingPolicy> make_srsf();
std::unique_ptr<SharingPolicy> make_max_min(double slice_s);  // 0: no slices
std::unique_ptr<SharingPolicy> make_max_min_fluid();
std::unique_ptr<SharingPolicy> make_drf();
std::unique_ptr<SharingPolicy> make_tiresias_l();
std::unique_ptr<SharingPolicy> make_tiresias_g();
std::unique_ptr<SharingPolicy> make_themis();
std::unique_ptr<SharingPolicy> make_optimus(const OptimusOptions& options = {});
std::unique_ptr<SharingPolicy> make_afs_l(const AfsOptions& options = {});
std::unique_ptr<SharingPolicy> make_afs_p(double quantum_s);
std::unique_ptr<SharingPolicy> make_gandiva(double slice_s, bool packs = false);
std::unique_ptr<SharingPolicy> make_pollux(const PolluxOptions& options = {});
std::unique_ptr<SharingPolicy> make_worth();

}  // namespace elastictrain::heuristics::sharing
