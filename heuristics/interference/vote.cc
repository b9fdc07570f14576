#include "heuristics/interference/vote.h"

#include <algorithm>

namespace elastictrain::heuristics {
namespace {

// Figures are means, so the remaining exchange time can be zero.
constexpr double kMinPart = 0.02;

double before_the_exchange_s(const WorkerView& member) {
  return member.data_wait_s + member.compute_s;
}

}  // namespace

Throughputs communication_throughputs(std::span<const WorkerView> members) {
  double slowest_s = 0;
  for (const auto& member : members) {
    if (member.steps != 0) slowest_s = std::max(slowest_s, before_the_exchange_s(member));
  }
  Throughputs found;
  for (const auto& member : members) {
    if (member.steps == 0 || !(member.communicate_s > 0)) continue;
    const double waiting_s = slowest_s - before_the_exchange_s(member);
    found[member.id] = 1 / std::max(member.communicate_s - waiting_s, kMinPart * member.communicate_s);
  }
  return found;
}

Vote vote_on_interference(const Throughputs& now, const Throughputs& reference, double below) {
  Vote vote;
  for (const auto& [worker, throughput] : now) {
    const auto first = reference.find(worker);
    if (first == reference.end()) continue;
    ++vote.voters;
    vote.votes += throughput < below * first->second ? 1 : 0;
  }
  return vote;
}

}  // namespace elastictrain::heuristics
