#include "tests/simulation/data_plane.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::simulation {
namespace {

constexpr Micros kMinBuild{300};
constexpr Micros kMaxBuild{60'000};
constexpr Micros kMinHop{30};
constexpr Micros kMaxHop{3'000};
constexpr Micros kNotice{4'000};  // until others see a closed connection
constexpr Micros kMaxTransfer{150'000};

}  // namespace

// A generation whose number was used twice must be distinguishable: by its token.
std::uint64_t DataPlane::key_of(const protocol::GenerationPlan& plan) {
  std::uint64_t key = mixed(plan.generation);
  for (const std::uint8_t byte : plan.token) key = mixed(key + byte);
  return key;
}

DataPlane::Group& DataPlane::group_of(const protocol::GenerationPlan& plan) {
  Group& group = groups_[key_of(plan)];
  if (group.members.empty()) {
    for (const protocol::Member& member : plan.members) group.members[member.worker];
  }
  return group;
}

void DataPlane::build(WorkerId self, const protocol::GenerationPlan& plan, bool fails, Built built) {
  Group& group = group_of(plan);
  Member& member = group.members[self];
  if (member.stand == Stand::kGone) return;
  member.stand = Stand::kBuilding;
  member.built = std::move(built);
  const std::uint64_t key = key_of(plan);
  const auto fail_after = [&](Micros delay, const std::string& reason) {
    queue_.after(delay, [this, key, self, reason] {
      Member& late = groups_[key].members[self];
      if (late.stand == Stand::kBuilding) answer_built(late, false, reason);
    });
  };
  if (fails || group.broken) return fail_after(rng_.time(kMinBuild, kMaxBuild), "a peer closed the connection");
  fail_after(Millis(plan.build_deadline_ms == 0 ? 30'000 : plan.build_deadline_ms), "a peer did not come in time");
  try_complete(group);
}

bool DataPlane::can_flow(const Group& group) const {
  for (const auto& [a, member] : group.members) {
    if (member.stand == Stand::kGone && member.graceful) continue;
    if (!wires_.runs(a)) return false;
    for (const auto& [b, other] : group.members) {
      if (a < b && !wires_.connected(a, b)) return false;
    }
  }
  return true;
}

// The connections to a machine that lost its power, or is cut off, appear to be open.
bool DataPlane::sees_break(const Group& group, WorkerId self) const {
  return std::any_of(group.members.begin(), group.members.end(), [&](const auto& entry) {
    const auto& [id, member] = entry;
    return member.stand == Stand::kGone && !member.graceful && wires_.connected(self, id);
  });
}

void DataPlane::try_complete(Group& group) {
  if (group.complete || group.broken || !can_flow(group)) return;
  for (const auto& [id, member] : group.members) {
    if (member.stand != Stand::kBuilding || !member.built) return;
  }
  group.complete = true;
  for (auto& [id, member] : group.members) {
    queue_.after(rng_.time(kMinBuild, kMaxBuild), [this, &member] {
      if (member.stand == Stand::kBuilding) answer_built(member, true, "");
    });
  }
}

void DataPlane::answer_built(Member& member, bool ok, const std::string& reason) {
  if (!member.built) return;
  member.stand = ok ? Stand::kBuilt : Stand::kGone;
  std::exchange(member.built, nullptr)(ok, reason);
}

void DataPlane::reduce(WorkerId self, const protocol::GenerationPlan& plan, Part part, Reduced reduced) {
  const std::uint64_t key = key_of(plan);
  Group& group = groups_[key];
  Member& member = group.members[self];
  const std::uint64_t number = ++member.collectives;
  Collective& collective = group.collectives[number];
  if (!collective.parts.empty() && collective.parts.begin()->second.what != part.what) {
    wires_.violated("same_collective", to_string(self) + " enters \"" + part.what + "\" where " +
                                           to_string(collective.parts.begin()->first) + " enters \"" +
                                           collective.parts.begin()->second.what + "\"");
  }
  collective.parts[self] = std::move(part);
  collective.waiting[self] = std::move(reduced);
  const bool dead = member.stand != Stand::kBuilt || sees_break(group, self);
  const bool left = std::any_of(group.members.begin(), group.members.end(), [&](const auto& entry) {
    return entry.second.stand == Stand::kGone && entry.second.collectives < number;
  });
  if (dead || left) {
    queue_.after(rng_.time(kMinHop, kNotice), [this, key, number, self] { end_for(key, number, self, false); });
    return;
  }
  try_finish(group, number);
}

void DataPlane::try_finish(Group& group, std::uint64_t number) {
  Collective& collective = group.collectives[number];
  if (collective.finishing || group.broken || collective.parts.size() != group.members.size()) return;
  if (!can_flow(group)) return;
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& e) { return &e.second == &group; });
  finish(group, found->first, number, collective);
}

void DataPlane::finish(Group& group, std::uint64_t key, std::uint64_t number, Collective& collective) {
  collective.finishing = true;
  std::uint64_t samples = 0;
  for (const auto& [id, part] : collective.parts) {
    collective.sum.positions.insert(collective.sum.positions.end(), part.counted.positions.begin(),
                                    part.counted.positions.end());
    samples += size_of(part.counted.positions);
    collective.sum.weight += part.weight;
    collective.sum.all_ready = collective.sum.all_ready && part.swap_ready;
    collective.sum.all_stop = collective.sum.all_stop && part.wants_stop;
  }
  collective.sum.positions = merged(std::move(collective.sum.positions));
  if (samples != 0 && std::abs(collective.sum.weight - 1.0) > 1e-9) {
    wires_.violated("weights_add_up", "the weights of " + collective.parts.begin()->second.what + " add up to " +
                                          std::to_string(collective.sum.weight));
  }
  for (const auto& [id, member] : group.members) {
    queue_.after(rng_.time(kMinHop, kMaxHop), [this, key, number, self = id] { end_for(key, number, self, true); });
  }
  if (!on_finish) return;
  std::vector<WorkerId> members;
  for (const auto& [id, member] : group.members) members.push_back(id);
  on_finish(members);
}

void DataPlane::end_for(std::uint64_t key, std::uint64_t number, WorkerId member, bool may_succeed) {
  Group& group = groups_[key];
  const auto found = group.collectives.find(number);
  if (found == group.collectives.end()) return;
  Collective& collective = found->second;
  const auto waiting = collective.waiting.find(member);
  if (waiting == collective.waiting.end()) return;
  Reduced reduced = std::move(waiting->second);
  collective.waiting.erase(waiting);
  const bool ok = may_succeed && group.members[member].stand == Stand::kBuilt;
  const Sum sum = collective.sum;
  if (collective.waiting.empty() && collective.finishing) group.collectives.erase(found);
  reduced(ok ? std::optional<Sum>(sum) : std::nullopt);
}

void DataPlane::abort(WorkerId self, const protocol::GenerationPlan& plan) {
  const auto found = groups_.find(key_of(plan));
  if (found != groups_.end()) gone(found->first, self, false);
}

void DataPlane::close(WorkerId self, const protocol::GenerationPlan& plan) {
  const auto found = groups_.find(key_of(plan));
  if (found != groups_.end()) gone(found->first, self, true);
}

void DataPlane::died(WorkerId self) {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, group] : groups_) {
    if (group.members.contains(self)) keys.push_back(key);
  }
  for (const std::uint64_t key : keys) gone(key, self, false);
}

// Whether data in transit still arrives is random.
void DataPlane::gone(std::uint64_t key, WorkerId self, bool graceful) {
  Group& group = groups_[key];
  Member& member = group.members[self];
  if (member.stand == Stand::kGone) return;
  if (member.stand == Stand::kBuilding && member.built && !graceful) member.built = nullptr;
  member.stand = Stand::kGone;
  member.graceful = graceful;
  group.broken = group.broken || !graceful;
  for (auto& [number, collective] : group.collectives) {
    for (const auto& [id, reduced] : collective.waiting) {
      const bool own = id == self;
      if (!own && (!wires_.runs(id) || !wires_.connected(id, self))) continue;  // does not notice it
      if (!own && collective.finishing && (graceful || rng_.chance(0.5))) continue;
      if (!own && graceful && member.collectives >= number) continue;
      const Micros delay = own ? Micros(50) : rng_.time(kMinHop, kNotice);
      queue_.after(delay, [this, key, n = number, id = id] { end_for(key, n, id, false); });
    }
  }
  for (auto& [id, other] : group.members) {
    if (other.stand != Stand::kBuilding || !wires_.runs(id) || !wires_.connected(id, self)) continue;
    queue_.after(rng_.time(kMinHop, kMaxBuild), [this, &other = other] {
      if (other.stand == Stand::kBuilding) answer_built(other, false, "a peer closed the connection");
    });
  }
  for (const auto& [transfer, state] : transfers_) {
    const auto& [donor, joiner] = transfer.second;
    if (transfer.first != key || (donor != self && joiner != self)) continue;
    const WorkerId other = donor == self ? joiner : donor;
    if (!wires_.connected(self, other)) {  // to the other it appears alive until the deadline
      queue_.after(Micros(50), [this, id = transfer, self] { end_side(id, self); });
      continue;
    }
    queue_.after(rng_.time(kMinHop, kNotice), [this, id = transfer] { end_transfer(id, false); });
  }
}

void DataPlane::look_again() {
  for (auto& [key, group] : groups_) {
    try_complete(group);
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, collective] : group.collectives) numbers.push_back(number);
    for (const std::uint64_t number : numbers) {
      try_finish(group, number);
      // A member that ended while its peers could not notice it.
      const auto found = group.collectives.find(number);
      if (found == group.collectives.end() || !group.broken || found->second.finishing) continue;
      for (const auto& [id, reduced] : found->second.waiting) {
        if (!wires_.runs(id) || !sees_break(group, id)) continue;
        queue_.after(rng_.time(kMinHop, kNotice),
                     [this, key = key, number, id = id] { end_for(key, number, id, false); });
      }
    }
  }
}

void DataPlane::offer_state(WorkerId donor, WorkerId joiner, const protocol::GenerationPlan& plan, Snapshot snapshot,
                            Transferred done) {
  const TransferKey key{key_of(plan), {donor, joiner}};
  Transfer& transfer = transfers_[key];
  // A joiner waits alone without a limit: donors arrive at any time.
  const auto limit = Millis(plan.build_deadline_ms == 0 ? 30'000 : plan.build_deadline_ms);
  queue_.after(limit, [this, key] { end_transfer(key, false); });
  transfer.snapshot = std::move(snapshot);
  transfer.at_donor = std::move(done);
  try_transfer(key);
}

void DataPlane::await_state(WorkerId donor, WorkerId joiner, const protocol::GenerationPlan& plan, HeaderCame header,
                            Transferred done) {
  const TransferKey key{key_of(plan), {donor, joiner}};
  Transfer& transfer = transfers_[key];
  transfer.header = std::move(header);
  transfer.at_joiner = std::move(done);
  if (given_up_.contains(key)) {
    queue_.after(rng_.time(kMinHop, kNotice), [this, key] { end_transfer(key, false); });
    return;
  }
  try_transfer(key);
}

bool DataPlane::are_built(const TransferKey& key) {
  const Group& group = groups_[key.first];
  const auto there = [&](WorkerId worker) { return group.members.at(worker).stand == Stand::kBuilt; };
  return there(key.second.first) && there(key.second.second);
}

void DataPlane::try_transfer(const TransferKey& key) {
  Transfer& transfer = transfers_.at(key);
  if (transfer.moving) return;
  if (!are_built(key)) {
    queue_.after(rng_.time(kMinHop, kNotice), [this, key] { end_transfer(key, false); });
    return;
  }
  if (!transfer.at_donor || !transfer.at_joiner) return;
  transfer.moving = true;
  queue_.after(rng_.time(kMinHop, kMaxHop), [this, key] { move(key); });
}

// First the header, then the rest. Data held up by a broken link arrives when the link is restored, unless one side has
// closed the connection meanwhile, which the other did not see.
void DataPlane::move(const TransferKey& key) {
  const auto found = transfers_.find(key);
  if (found == transfers_.end()) return;
  const auto& [donor, joiner] = key.second;
  const bool flows = wires_.runs(donor) && wires_.runs(joiner) && wires_.connected(donor, joiner);
  if (!flows) {
    queue_.after(Millis(20), [this, key] { move(key); });
  } else if (!are_built(key)) {
    end_transfer(key, false);
  } else if (!std::exchange(found->second.header_moved, true)) {
    found->second.header(found->second.snapshot);
    queue_.after(rng_.time(kMinHop, kMaxTransfer), [this, key] { move(key); });
  } else {
    end_transfer(key, true);
  }
}

void DataPlane::end_side(const TransferKey& key, WorkerId self) {
  const auto found = transfers_.find(key);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  const Transferred done = std::exchange(key.second.first == self ? transfer.at_donor : transfer.at_joiner, nullptr);
  if (done) done(false);
}

void DataPlane::end_transfer(const TransferKey& key, bool ok) {
  const auto found = transfers_.find(key);
  if (found == transfers_.end()) return;
  const Transfer transfer = std::move(found->second);
  transfers_.erase(found);
  if (!ok && !transfer.at_joiner) given_up_.insert(key);  // who comes later finds nobody
  if (transfer.at_joiner) transfer.at_joiner(ok);
  if (transfer.at_donor) transfer.at_donor(ok);
}

}  // namespace elastictrain::simulation
