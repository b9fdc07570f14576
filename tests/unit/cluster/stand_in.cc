#include "stand_in.h"

#include <algorithm>

namespace elastictrain::cluster_core::test {

// Every worker adds less than the one before; 10 samples a second alone.
double rate_of(std::size_t workers) {
  double rate = 0;
  for (std::size_t worker = 0; worker < workers; ++worker) rate += 10.0 / (1 + 0.1 * static_cast<double>(worker));
  return rate;
}

double speed_on(JobId job, std::uint32_t hosts) {
  const double factors[] = {1, 0.8, 1.2};
  return hosts < 2 ? 1 : factors[job % 3];
}

std::uint32_t StandIn::hosts() const {
  return hosts_of({processes.begin(), processes.end()});
}

void StandIn::train(double now_s) {
  const double speed = speed_on(job, hosts()) * (beside == 0 ? 1 : packed_speed());
  if (!stands && processes.size() >= spec.min) {
    samples += speed * rate_of(processes.size()) * std::max(0.0, now_s - trained_s);
  }
  trained_s = now_s;
}

double StandIn::packed_speed() const {
  return (job + beside) % 2 == 0 ? 0.8 : 0.3;
}

bool StandIn::wants_to_leave() const {
  return allowed.empty() && !processes.empty() && spec.suspends;
}

void StandIn::take(std::uint64_t version, const Slots& slots, bool hold_now, JobId beside_now, bool moves_now) {
  if (version <= seen) return;
  if (beside_now != beside) packed_views = 0;
  beside = beside_now;
  seen = version;
  allowed = {slots.begin(), slots.end()};
  if (stands && !hold_now) still = processes;
  std::erase_if(still, [this](Slot slot) { return allowed.contains(slot); });
  hold = hold_now;
  moves = moves_now;
  stands = stands && hold;
}

void StandIn::lose_processes() {
  processes.clear();
  successors.clear();
  still.clear();
  stands = false;
}

void StandIn::lose_host(std::uint32_t host) {
  const auto there = [host](Slot slot) { return slot.host == host; };
  std::erase_if(processes, there);
  std::erase_if(successors, there);
  std::erase_if(still, there);
}

// A host that is not in its lease is forgotten, one that is back is tried again after a while.
void StandIn::look_for_hosts() {
  constexpr std::uint32_t kLooks = 30;
  std::set<std::uint32_t> leased;
  for (const Slot slot : allowed) leased.insert(slot.host);
  for (auto& [host, looks] : lost) --looks;
  std::erase_if(lost, [&](const auto& entry) { return entry.second == 0 || !leased.contains(entry.first); });
  for (const std::uint32_t host : leased) {
    if (absent != nullptr && absent->contains(host)) lost.emplace(host, kLooks);
  }
}

bool StandIn::can_start(Slot slot) const {
  return !faults.cannot_start && !lost.contains(slot.host) && (absent == nullptr || !absent->contains(slot.host));
}

bool StandIn::too_few_can_start() const {
  const auto can = std::count_if(allowed.begin(), allowed.end(), [&](Slot slot) { return can_start(slot); });
  return processes.empty() && !lost.empty() && allowed.size() >= spec.min && can < std::int64_t{spec.min};
}

bool StandIn::exchange() {
  const bool trains =
      std::any_of(processes.begin(), processes.end(), [&](Slot slot) { return !allowed.contains(slot); });
  if (!trains) return true;
  const bool ready = std::all_of(allowed.begin(), allowed.end(),
                                 [&](Slot slot) { return processes.contains(slot) || successors.contains(slot); });
  if (ready) return true;
  std::erase_if(successors, [&](Slot slot) { return !allowed.contains(slot); });
  for (const Slot slot : allowed) {
    if (can_start(slot)) successors.insert(slot);
  }
  return false;
}

void StandIn::follow() {
  if (hold) {
    stands = true;
    return;
  }
  if (moves && !exchange()) return;
  std::erase_if(processes, [&](Slot slot) {
    const bool goes = !allowed.contains(slot);
    return goes && !(faults.keeps_slot && processes.size() == 1);
  });
  std::erase_if(still, [this](Slot slot) { return !processes.contains(slot); });
  successors.clear();
  if (allowed.size() < spec.min) return;
  for (const Slot slot : allowed) {
    if (can_start(slot)) processes.insert(slot);
  }
}

Slots StandIn::holds() const {
  std::set<Slot> all = processes;
  all.insert(successors.begin(), successors.end());
  return {all.begin(), all.end()};
}

Join StandIn::join(Connection number, const std::string& id) const {
  Join join;
  join.connection = number;
  join.owner = {own ? 0U : 7U, own ? "root" : "other", own};
  join.job = id;
  join.directory = "/runs/" + name;
  join.pid = static_cast<std::int64_t>(attempt) + 100;
  join.spec = spec;
  join.spec.arguments.clear();
  join.moves = knows_moves;
  join.lease = seen;
  join.holds = holds();
  return join;
}

Report StandIn::report() {
  Report report;
  report.connection = connection;
  report.lease = seen;
  report.holds = holds();
  report.phase = processes.empty() ? "waiting" : "training";
  report.stands = stands;
  report.workers = static_cast<std::uint32_t>(processes.size());
  report.samples = static_cast<std::uint64_t>(samples);
  report.samples_total = spec.samples_total;
  for (const auto& [host, looks] : lost) report.lost_hosts.push_back(host);
  if (!processes.empty() && !stands && beside == 0) ++views[{report.workers, hosts()}];
  for (const auto& [size, count] : views) {
    report.rates.push_back({size.first, rate_of(size.first) * speed_on(job, size.second), count, false, size.second});
  }
  if (!processes.empty() && !stands && beside != 0) {
    report.rates.push_back({report.workers, rate_of(processes.size()) * packed_speed(), ++packed_views, true, hosts()});
  }
  return report;
}

}  // namespace elastictrain::cluster_core::test
