#include "heuristics/straggler/data_wait.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "heuristics/straggler/detector.h"
#include "heuristics/straggler/hosts.h"

namespace elastictrain::heuristics {
namespace {

struct Usual {
  double wait_s = 0;  // lower medians over the workers
  double step_s = 0;
};

std::optional<Usual> usual_of(const JobView& job) {
  std::vector<double> waits;
  std::vector<double> steps;
  for (const WorkerView& member : job.members) {
    if (member.steps == 0) continue;
    waits.push_back(member.data_wait_s);
    steps.push_back(member.step_s);
  }
  if (waits.size() < 2) return std::nullopt;
  return Usual{lower_median(waits), lower_median(steps)};
}

}  // namespace

std::optional<Reason> DataWait::observe(const ClusterView& view, const JobView& job, const DataWaitOptions& options) {
  tracks_.follow(job.members);
  const double begin_s = std::exchange(previous_s_, view.now_s);
  const auto usual = usual_of(job);
  if (!usual) return std::nullopt;
  const WorkerView* worst = nullptr;
  double worst_s = 0;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const WorkerView& member = job.members[i];
    Track& track = tracks_[i];
    if (member.steps > 0) {
      track.excess_s = member.data_wait_s - usual->wait_s;
      const bool waits = track.excess_s > options.min_share * usual->step_s;
      if (waits && track.views == 0) track.since_s = (begin_s + view.now_s) / 2;  // somewhere in this view
      track.views = waits ? track.views + 1 : 0;
    }
    const bool lasts = track.views >= options.min_views && view.now_s - track.since_s >= options.min_s;
    if (!lasts || track.excess_s <= worst_s) continue;
    worst = &member;
    worst_s = track.excess_s;
  }
  if (worst == nullptr) return std::nullopt;
  char text[260];
  std::snprintf(
      text, sizeof text,
      "worker %llu (rank %u on %s) waits %.1f ms in each step for its data, the others %.1f ms: another worker "
      "would wait for them as well",
      static_cast<unsigned long long>(worst->id), worst->rank, host_name(view, worst->host).c_str(),
      1e3 * worst->data_wait_s, 1e3 * usual->wait_s);
  return Reason{"data_bound", text, {{"data_wait_s", worst->data_wait_s}, {"others_s", usual->wait_s}}};
}

}  // namespace elastictrain::heuristics
