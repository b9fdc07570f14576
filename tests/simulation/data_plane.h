// Purpose: an abstract model of the data plane of all generations: communicators that are built, used, aborted and
// closed, and the transfers of state next to them. A collective begins to finish once all members are in it. It then
// ends for each member at its own time. If a member is lost or aborts meanwhile, it succeeds for some and fails for
// others.
//
// Ownership: the world. Thread: one. Every answer arrives later, through the queue, never inside the call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/parameters.h"
#include "tests/simulation/rng.h"

namespace elastictrain::simulation {

// One member's part of a collective.
struct Part {
  std::string what;  // identifies the collective; must be equal for all
  Counted counted;   // the samples behind this member's gradient
  double weight = 0;
  bool swap_ready = false;
  bool wants_stop = false;
};
// The result of a finished collective for every member.
struct Sum {
  Intervals positions;
  double weight = 0;
  bool all_ready = true;
  bool all_stop = true;
};

// The state of the machines that the plane depends on.
struct Links {
  std::function<bool(WorkerId)> runs;                 // alive and not stopped
  std::function<bool(WorkerId, WorkerId)> connected;  // their hosts reach each other
  std::function<void(const std::string& check, const std::string& text)> violated;
};

class DataPlane {
 public:
  using Built = std::function<void(bool ok, const std::string& reason)>;
  using Reduced = std::function<void(std::optional<Sum>)>;
  using Transferred = std::function<void(bool ok)>;
  using HeaderCame = std::function<void(const Snapshot&)>;

  DataPlane(EventQueue& queue, Rng& rng, Links links) : queue_(queue), rng_(rng), wires_(std::move(links)) {}

  void build(WorkerId self, const protocol::GenerationPlan& plan, bool fails, Built built);
  void reduce(WorkerId self, const protocol::GenerationPlan& plan, Part part, Reduced reduced);
  // Ends this member's build or collective with an error, and soon that of the others.
  void abort(WorkerId self, const protocol::GenerationPlan& plan);
  // An orderly close: collectives that this member has finished are not disturbed.
  void close(WorkerId self, const protocol::GenerationPlan& plan);
  void died(WorkerId self);
  // A process runs again, or a link is restored: blocked operations may continue.
  void look_again();

  // Called when a collective begins to end, with its members: at this moment a loss separates the members that commit
  // the step from those that do not.
  std::function<void(const std::vector<WorkerId>&)> on_finish;

  // A slice of the state from donor to joiner, within a generation: each side announces that it is ready.
  void offer_state(WorkerId donor, WorkerId joiner, const protocol::GenerationPlan& plan, Snapshot snapshot,
                   Transferred done);
  void await_state(WorkerId donor, WorkerId joiner, const protocol::GenerationPlan& plan, HeaderCame header,
                   Transferred done);

 private:
  enum class Stand : std::uint8_t { kAbsent, kBuilding, kBuilt, kGone };
  struct Member {
    Stand stand = Stand::kAbsent;
    Built built;
    std::uint64_t collectives = 0;  // entered so far
    bool graceful = false;          // kGone by close()
  };
  struct Collective {
    std::map<WorkerId, Part> parts;
    std::map<WorkerId, Reduced> waiting;
    bool finishing = false;
    Sum sum;
  };
  struct Group {
    std::map<WorkerId, Member> members;
    std::map<std::uint64_t, Collective> collectives;
    bool broken = false;  // a member is gone without an orderly close
    bool complete = false;
  };
  struct Transfer {
    std::uint64_t group = 0;
    Snapshot snapshot;
    HeaderCame header;
    Transferred at_donor;
    Transferred at_joiner;
    bool moving = false;
    bool header_moved = false;
  };
  using TransferKey = std::pair<std::uint64_t, std::pair<WorkerId, WorkerId>>;  // group, donor, joiner

  static std::uint64_t key_of(const protocol::GenerationPlan& plan);
  Group& group_of(const protocol::GenerationPlan& plan);
  bool can_flow(const Group& group) const;
  bool sees_break(const Group& group, WorkerId self) const;
  void try_complete(Group& group);
  void try_finish(Group& group, std::uint64_t number);
  void finish(Group& group, std::uint64_t key, std::uint64_t number, Collective& collective);
  void end_for(std::uint64_t key, std::uint64_t number, WorkerId member, bool may_succeed);
  void gone(std::uint64_t key, WorkerId self, bool graceful);
  void answer_built(Member& member, bool ok, const std::string& reason);
  bool are_built(const TransferKey& key);
  void try_transfer(const TransferKey& key);
  void move(const TransferKey& key);
  void end_side(const TransferKey& key, WorkerId self);
  void end_transfer(const TransferKey& key, bool ok);

  EventQueue& queue_;
  Rng& rng_;
  Links wires_;
  std::map<std::uint64_t, Group> groups_;
  std::map<TransferKey, Transfer> transfers_;
  std::set<TransferKey> given_up_;  // by the donor, before the joiner came
};

}  // namespace elastictrain::simulation
