// Purpose: the interface of every sharing policy.
//
// A policy is immutable; its memory between two decisions is a state that the caller keeps. The same views from the
// same state and seed give the same decisions, live and simulated. It is asked when a job arrives or ends, when slots
// come or go, and at Decision::again_s. Pure: no clock, no I/O, no globals. A decision takes O(n log n) of jobs and
// slots.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heuristics/sharing/view.h"

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

}  // namespace elastictrain::heuristics::sharing
