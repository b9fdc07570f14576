#include <algorithm>
#include <map>
#include <set>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"

// Hosts of helper jobs: how many slots the jobs could use, and what is known of the hosts that came for that.

namespace elastictrain::cluster_core {
namespace {

constexpr std::uint32_t kGrowthOfMeasured = 2;  // a size beyond twice the largest measured one is too much of a guess
constexpr std::size_t kMaxNamed = 5;

std::uint32_t largest_measured(const Job& job) {
  std::uint32_t largest = 0;
  for (const auto& [workers, measured] : job.rates) {
    if (measured.counts()) largest = std::max(largest, workers);
  }
  return largest;
}

// What each user may still have.
struct Room {
  std::uint32_t slots = kNoLimit;
  std::uint32_t running = kNoLimit;

  std::uint32_t take(std::uint32_t wanted, std::uint32_t least) {
    const std::uint32_t given = std::min(wanted, slots);
    if (given < least || running == 0) return 0;
    if (slots != kNoLimit) slots -= given;
    if (running != kNoLimit) --running;
    return given;
  }
};

std::string names_of(const std::vector<std::string>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(jobs.size(), kMaxNamed); ++i) text += (i == 0 ? "" : ", ") + jobs[i];
  if (jobs.size() > kMaxNamed) text += " and " + std::to_string(jobs.size() - kMaxNamed) + " more";
  return text;
}

std::string reason_of(const std::vector<std::string>& wait, const std::vector<std::string>& gain) {
  std::string text;
  if (!wait.empty()) text = names_of(wait) + (wait.size() == 1 ? " waits" : " wait");
  if (!gain.empty()) text += (text.empty() ? "" : "; ") + names_of(gain) + " would gain";
  return text;
}

}  // namespace

std::uint32_t slots_with_helpers(const ClusterState& state) {
  return std::max(cluster_slots(state), state.settings.most_slots);
}

// A helper's hosts are taken to be as large as the largest one so far.
std::uint32_t reach_with_helpers(const ClusterState& state, const JobSpec& spec) {
  if (!spec.hosts.empty() || state.settings.most_slots == 0) return reach_of(state, spec);
  const std::uint32_t most_hosts = spec.one_host ? 1 : spec.most_hosts;
  if (most_hosts == 0) return slots_with_helpers(state);
  std::uint32_t largest = 1;
  for (const HostLine& host : state.hosts) largest = std::max(largest, host.slots);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{largest} * most_hosts, kNoLimit));
}

// Without helpers' hosts, whose last one may have brought more than there may be.
static std::uint32_t own_slots(const ClusterState& state) {
  std::uint32_t slots = 0;
  for (const HostLine& host : state.hosts) {
    const auto is_it = [&](const HostLine& helper) { return helper.name == host.name; };
    if (std::none_of(state.helpers.begin(), state.helpers.end(), is_it)) slots += host.slots;
  }
  return slots;
}

static std::uint32_t useful_slots(const ClusterState& state, const Job& job) {
  std::uint32_t most = std::min({job.spec.max, job.limits.slots, reach_with_helpers(state, job.spec)});
  if (job.wants) most = std::min(most, *job.wants);
  const std::uint32_t least = std::max(1U, job.spec.min);
  const std::uint32_t measured = largest_measured(job);
  const std::uint32_t first = std::max(job.spec.start, least);
  if (!state.spec->elastic || measured == 0) return std::clamp(first, least, std::max(least, most));
  most = std::max(least, std::min({most, kGrowthOfMeasured * measured, heuristics::sharing::kMaxElasticSlots}));
  const auto curve = curve_of(job, most, 1);
  std::uint32_t useful = least;
  for (std::uint32_t size = least; size < std::min(most, curve.cap()); ++size) {
    const double gain = curve.best(size + 1) - curve.best(size);
    if (gain >= state.settings.least_gain * curve.best(size) / size) useful = size + 1;
  }
  return useful;
}

SlotDemand demand_of(const ClusterState& state) {
  SlotDemand demand;
  std::map<std::uint32_t, std::uint32_t> used;
  std::map<std::uint32_t, Room> rooms;
  std::vector<std::string> wait, gain;
  for (const auto& [id, job] : state.jobs) {
    if (!job.live()) continue;
    for (const auto slot : state.book.owned(id)) ++used[slot.host];
    for (const auto slot : state.book.parked(id)) ++used[slot.host];
    const bool may_have_some = job.may_run() && !job.paused;
    if (!may_have_some && !at_work(state, job) && job.phase != Phase::kLost) continue;
    Room& room = rooms.try_emplace(job.owner.uid, Room{job.limits.slots, job.limits.running}).first->second;
    const std::uint32_t wanted = room.take(may_have_some ? useful_slots(state, job) : job.share, job.spec.min);
    demand.needed += std::min(wanted, kNoLimit - demand.needed);
    if (wanted > job.share) (job.share == 0 ? wait : gain).push_back(id_text(id));
  }
  demand.needed = std::min(demand.needed, std::max(own_slots(state), state.settings.most_slots));
  demand.why = reason_of(wait, gain);
  for (std::uint32_t host = 0; host < state.hosts.size(); ++host) {
    const auto found = used.find(host);
    demand.hosts.push_back({state.hosts[host].name, state.hosts[host].slots, found == used.end() ? 0 : found->second});
  }
  return demand;
}

void handle(ClusterState& state, const HelpersChanged& event, double now_s) {
  using What = HelpersChanged::What;
  const bool is_asked = event.what == What::kAsked;
  const bool answered = event.what == What::kWithdrawn || event.what == What::kFailed || event.what == What::kCame;
  state.helpers = event.helpers;
  if (is_asked || answered) state.asked_slots = is_asked ? event.slots : 0;
  if (is_asked) state.asked_s = now_s;
  const SlotDemand now = demand_of(state);
  write_record(state, record::Helpers{event, now.needed, is_asked ? now.why : std::string()});
}

// Hosts that are on the list and that runs cannot reach. A run forgets a host that is not in its lease, whatever has
// become of it, so one that it found lost is not given to it again for a while, which doubles each time that it is lost
// again. What a job of the cluster's own user has found holds for all jobs, unless one of them works there.
namespace {

constexpr double kFirstWait_s = 10;  // before jobs are given the host again; doubles with each loss
constexpr double kLongestWait_s = 600;
constexpr double kForgotten_s = 60;  // after the wait, without another loss

}  // namespace

// True: its run has found another one.
bool take_lost(ClusterState& state, Job& job, const std::vector<std::uint32_t>& reported, double now_s) {
  bool finds = false;
  for (auto& [host, loss] : job.losses) loss.reported = false;
  for (const std::uint32_t host : reported) {
    HostLoss& loss = job.losses[host];
    const bool is_new = !job.has_lost(host);
    if (is_new) loss.wait_s = std::clamp(2 * loss.wait_s, kFirstWait_s, kLongestWait_s);
    if (is_new && host < state.hosts.size()) {
      state.actions.emplace_back(Tell{id_text(job.id) + " cannot reach " + state.hosts[host].name + "; it is given " +
                                          (job.owner.of_cluster ? "to jobs" : "to it") + " again after " +
                                          std::to_string(static_cast<int>(loss.wait_s)) + " s",
                                      true});
    }
    finds = finds || is_new;
    loss.reported = true;
    loss.until_s = now_s + loss.wait_s;
  }
  const std::size_t before = job.lost_hosts.size();
  look_at_losses(state, job, now_s);
  if (!finds && job.lost_hosts.size() < before)
    decide_soon(state, now_s, id_text(job.id) + " may have a lost host again");
  return finds;
}

void look_at_losses(ClusterState& state, Job& job, double now_s) {
  std::erase_if(job.losses, [&](const auto& entry) {
    return !entry.second.reported && now_s >= entry.second.until_s + kForgotten_s;
  });
  job.lost_hosts.clear();
  for (const auto& [host, loss] : job.losses) {
    const bool waits = now_s < loss.until_s;
    if (loss.reported || waits) job.lost_hosts.push_back(host);
    if (waits && !loss.reported) state.again_s = std::min(state.again_s, loss.until_s);
  }
}

static bool is_worked_on(const ClusterState& state, std::uint32_t host) {
  return std::any_of(state.jobs.begin(), state.jobs.end(), [&](const auto& entry) {
    if (entry.second.has_lost(host)) return false;
    const Slots held = state.book.held(entry.first);
    return std::any_of(held.begin(), held.end(), [&](auto slot) { return slot.host == host; });
  });
}

void block_lost(const ClusterState& state, SchedulingRound& round) {
  std::set<std::uint32_t> lost;
  for (const auto& [id, job] : state.jobs) {
    if (job.live() && job.owner.of_cluster) lost.insert(job.lost_hosts.begin(), job.lost_hosts.end());
  }
  for (const std::uint32_t host : lost) {
    if (host < round.usable.size() && !is_worked_on(state, host))
      round.usable[host].assign(round.usable[host].size(), false);
  }
}

}  // namespace elastictrain::cluster_core
