// Purpose: the interface of every sharing policy, and the built-in ones by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heuristics/sharing/view.h"

// The interface of every sharing policy.
//
// A policy is immutable; its memory between two decisions is a state that the caller keeps. The same views from the
// same state and seed give the same decisions, live and simulated. It is asked when a job arrives or ends, when slots
// come or go, and at Decision::again_s. Pure: no clock, no I/O, no globals. A decision takes O(n log n) of jobs and
// slots.

namespace elastictrain::heuristics::sharing {

using Rng = std::mt19937_64;

class State {
 public:
  virtual ~State() = default;
  virtual std::unique_ptr<State> clone() const = 0;
};

// The state of policies that keep nothing.
struct NoState final : State {
  std::unique_ptr<State> clone() const override { return std::make_unique<NoState>(); }
};

class SharingPolicy {
 public:
  virtual ~SharingPolicy() = default;
  virtual std::unique_ptr<State> initial_state() const { return std::make_unique<NoState>(); }
  // `state` must come from this policy's initial_state(). `decision` comes with one empty grant per job.
  virtual void decide(const View& view, State& state, Rng& rng, Decision& decision) const = 0;
};

struct Settings {
  double slice_s = 0;  // of policies with time slices; 0: their own
  bool packs = false;  // two jobs may share slots, under policies that pack
};

struct PolicySpec {
  std::string name;
  std::string help;
  bool elastic = true;  // chooses sizes, so it needs throughputs at several; otherwise jobs run as requested
  bool needs_lengths = false;
  std::function<std::unique_ptr<SharingPolicy>(const Settings&)> make;
  bool packs = false;  // does something with Settings::packs
  // It is made for jobs that choose their batch at each size: their curves are goodput.
  bool adapts_batch = false;
  bool outside = false;  // a program or library of the user
};

// All policies, in the order in which they are listed.
const std::vector<PolicySpec>& sharing_policies();
// Null if there is none of that name.
const PolicySpec* find_sharing_policy(const std::string& name);

// Makes each built-in sharing policy; one file a policy holds what it does and where it comes from.

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
