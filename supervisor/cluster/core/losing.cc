// Hosts that are on the list and that runs cannot reach. A run forgets a host that is not in its lease, whatever has
// become of it, so one that it found lost is not given to it again for a while, which doubles each time that it is lost
// again. What a job of the cluster's own user has found holds for all jobs, unless one of them works there.
#include <algorithm>
#include <set>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/handling.h"

namespace elastictrain::jobs {
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

void block_lost(const ClusterState& state, Round& round) {
  std::set<std::uint32_t> lost;
  for (const auto& [id, job] : state.jobs) {
    if (job.live() && job.owner.of_cluster) lost.insert(job.lost_hosts.begin(), job.lost_hosts.end());
  }
  for (const std::uint32_t host : lost) {
    if (host < round.usable.size() && !is_worked_on(state, host))
      round.usable[host].assign(round.usable[host].size(), false);
  }
}

}  // namespace elastictrain::jobs
