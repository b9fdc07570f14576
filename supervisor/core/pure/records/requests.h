// Purpose: records about what users, policies and programs request, and about the desired state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core::record {

struct Accepted {
  std::uint64_t request = 0;
  std::string text;
};
ET_RECORD(Accepted, "accepted", "A request was accepted.", ET_FIELD(request), ET_FIELD(text))

struct Refused {
  std::uint64_t request = 0;
  std::string text;
};
ET_RECORD(Refused, "refused", "A request was refused.", ET_FIELD(request), ET_FIELD(text))

struct ResizeRequested {
  std::uint64_t request = 0;
  std::uint32_t target = 0;
  std::string reason;
};
ET_RECORD(ResizeRequested, "resize_requested", "Another number of workers is requested.", ET_FIELD(request),
          ET_FIELD(target), ET_FIELD(reason))

struct SizeHeld {
  std::uint32_t target = 0;
  std::optional<std::uint64_t> for_ms;
};
ET_RECORD(SizeHeld, "size_held", "A user's size counts against the policy, for a time or until `resize auto`.",
          ET_FIELD(target), ET_FIELD(for_ms))

struct SizeReleased {
  std::string reason;
};
ET_RECORD(SizeReleased, "size_released", "The policy decides on the size again.", ET_FIELD(reason))

struct ReplaceRequested {
  std::uint64_t request = 0;
  std::optional<std::uint32_t> rank;
  std::optional<std::string> host;
};
ET_RECORD(ReplaceRequested, "replace_requested", "A worker, or all workers of a host, are to be replaced.",
          ET_FIELD(request), ET_FIELD(rank), ET_FIELD(host))

struct DrainRequested {
  std::uint64_t request = 0;
  std::string host;
};
ET_RECORD(DrainRequested, "drain_requested", "The workers of a host are to leave it.", ET_FIELD(request),
          ET_FIELD(host))

struct UndrainRequested {
  std::uint64_t request = 0;
  std::string host;
};
ET_RECORD(UndrainRequested, "undrain_requested", "Workers may be started on a drained host again.", ET_FIELD(request),
          ET_FIELD(host))

struct PlanUpdateRequested {
  std::uint64_t request = 0;
  std::string reason;
};
ET_RECORD_RENAMED(PlanUpdateRequested,
                  (RecordName{"plan_update_requested", "The same workers are to train in another way.",
                              "reshare_requested"}),
                  ET_FIELD(request), ET_FIELD(reason))

// What was requested since the start of the run.
struct PlanUpdated {
  std::optional<std::uint32_t> per_worker;
  std::optional<std::uint32_t> program_batch;
  std::optional<std::uint32_t> program_max_global;
  std::optional<double> target_factor;
  std::optional<double> target_noise_scale;
  std::optional<std::vector<std::uint32_t>> target_parents;
  std::optional<protocol::Topology> target_topology;
  std::optional<protocol::Synchronization> target_synchronization;
};
ET_RECORD_RENAMED(PlanUpdated,
                  (RecordName{"plan_updated",
                              "How the workers are to train from the next generation on: all that was "
                              "requested since the start of the run.",
                              "reshared"}),
                  ET_FIELD(per_worker), ET_FIELD(program_batch).since(3), ET_FIELD(program_max_global).since(7),
                  ET_FIELD(target_factor).since(2).was("wished_factor"),
                  ET_FIELD(target_noise_scale).since(2).was("wished_noise_scale"),
                  ET_FIELD(target_parents).since(2).was("wished_fathers"),
                  ET_FIELD(target_topology).since(2).was("wished_topology"),
                  ET_FIELD(target_synchronization).since(2).was("wished_synchronization"))

struct ProgramRequested {
  WorkerId worker;
  std::uint32_t target = 0;
};
ET_RECORD(ProgramRequested, "program_requested", "The program requests a change of its run.", ET_FIELD(worker),
          ET_FIELD(target))

struct ProgramRefused {
  std::string text;
};
ET_RECORD(ProgramRefused, "program_refused", "A request of the program was refused.", ET_FIELD(text))

struct Target {
  std::uint32_t target = 0;
  std::string reason;
};
ET_RECORD(Target, "target", "The desired number of workers changed without a request.", ET_FIELD(target),
          ET_FIELD(reason))

struct TargetUnmet {
  std::uint32_t wanted = 0;
  std::uint64_t possible = 0;
  std::string text;
};
ET_RECORD_RENAMED(TargetUnmet,
                  (RecordName{"target_unmet", "A part of the desired state cannot be reached now.", "wish_unmet"}),
                  ET_FIELD(wanted), ET_FIELD(possible), ET_FIELD(text))

struct ReplaceGivenUp {
  WorkerId worker;
};
ET_RECORD(ReplaceGivenUp, "replace_given_up", "No worker could be started in the place of this one: it stays.",
          ET_FIELD(worker))

struct Observed {
  RawJson view;
};
ET_RECORD(Observed, "observed", "What a policy sees when it is called.", ET_FIELD(view))

struct Decided {
  std::string policy;
  std::string code;
  std::string reason;
  std::optional<std::uint32_t> workers;
  std::optional<std::vector<std::uint64_t>> replace;
  std::optional<std::vector<std::string>> because;
  NamedNumbers numbers;
};
ET_RECORD(Decided, "decided",
          "The policy's decision: a size, workers to replace with a reason for each, and the numbers on which it is "
          "based. A number that has the name of a field is written with `_number` behind it.",
          ET_FIELD(policy), ET_FIELD(code), ET_FIELD(reason), ET_FIELD(workers), ET_FIELD(replace), ET_FIELD(because),
          ET_FIELD(numbers))

struct LeaseTaken {
  std::uint64_t version = 0;
  std::uint32_t slots = 0;
  std::vector<std::string> hosts;
  std::string reason;
  std::optional<bool> hold;
  std::optional<bool> moves;
};
ET_RECORD(
    LeaseTaken, "lease",
    "The cluster's newest lease: how many slots the run may use from now on, and which, as \"host:0,1,3\". "
    "`hold`: its workers stand still there. `moves`: slots that it no longer names are exchanged for others; their "
    "workers train until successors take their places.",
    ET_FIELD(version), ET_FIELD(slots), ET_FIELD(hosts), ET_FIELD(reason), ET_FIELD(hold), ET_FIELD(moves))

struct LeaseIgnored {
  std::uint64_t version = 0;
};
ET_RECORD(LeaseIgnored, "lease_ignored", "A lease that is not newer than the last one changes nothing.",
          ET_FIELD(version))

using RequestRecords =
    RecordList<Accepted, Refused, ResizeRequested, SizeHeld, SizeReleased, ReplaceRequested, DrainRequested,
               UndrainRequested, PlanUpdateRequested, PlanUpdated, ProgramRequested, ProgramRefused, Target,
               TargetUnmet, ReplaceGivenUp, Observed, Decided, LeaseTaken, LeaseIgnored>;

}  // namespace elastictrain::core::record
