// Hosts of helper jobs: how many slots the jobs could use, and what is known of the hosts that came for that.
#include <algorithm>
#include <map>

#include "supervisor/cluster/core/handling.h"

namespace elastictrain::jobs {
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

}  // namespace elastictrain::jobs
