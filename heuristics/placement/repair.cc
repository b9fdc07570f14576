#include "heuristics/placement/repair.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace elastictrain::heuristics::placement {
namespace {

bool may_use(const std::vector<bool>& allowed, std::uint32_t host) {
  return allowed.empty() || (host < allowed.size() && allowed[host]);
}

std::uint32_t slots_on(const std::vector<Piece>& pieces, std::uint32_t host) {
  for (const Piece& piece : pieces) {
    if (piece.host == host) return piece.slots;
  }
  return 0;
}

std::uint32_t slots_of(const std::vector<Piece>& pieces) {
  return Placed{pieces}.slots();
}

class Finder {
 public:
  Finder(const std::vector<std::uint32_t>& free, const std::vector<Resident>& residents,
         const std::vector<Seeker>& seekers)
      : free_(free), residents_(residents), seekers_(seekers), spanning_(free.size(), 0) {
    for (const Resident& resident : residents_) {
      if (resident.held.size() < 2) continue;
      for (const Piece& piece : resident.held) ++spanning_[piece.host];
    }
  }

  Repair find() {
    for (std::size_t job = 0; job < residents_.size(); ++job) {
      if (residents_[job].may_move && residents_[job].held.size() > 1) gather(job);
    }
    for (std::size_t seeker = 0; seeker < seekers_.size(); ++seeker) make_room(seeker);
    return std::move(best_);
  }

 private:
  void offer(Repair repair) {
    if (repair.gain_slot_s < kLeastReturn * repair.price_slot_s) return;
    const double net = repair.gain_slot_s - repair.price_slot_s;
    if (!best_.moves.empty() && net <= best_.gain_slot_s - best_.price_slot_s) return;
    best_ = std::move(repair);
  }

  // What it costs if so many of its workers move.
  static double price(const Resident& job, std::uint32_t moved) {
    return moved * job.start_s + slots_of(job.held) * job.step_s;
  }

  static std::uint32_t moved(const Resident& job, const std::vector<Piece>& to) {
    std::uint32_t stay = 0;
    for (const Piece& piece : to) stay += std::min(piece.slots, slots_on(job.held, piece.host));
    return slots_of(job.held) - stay;
  }

  // --- Gather

  static double gain(const Resident& job, std::uint32_t hosts) {
    const auto before = job.rate.find(static_cast<std::uint32_t>(job.held.size())), after = job.rate.find(hosts);
    const bool known = before != job.rate.end() && after != job.rate.end() && after->second > 0;
    const double speedup = known ? after->second / before->second : 1 + kHopedGain;
    return speedup <= 1 ? 0 : slots_of(job.held) * job.left_s * (1 - 1 / speedup);
  }

  // Slots that it could have on a host: those that it has, and free ones.
  std::uint32_t room(const Resident& job, std::uint32_t host, bool spans) const {
    const std::uint32_t own = slots_on(job.held, host);
    const bool taken = spans && spanning_[host] > (own > 0 ? 1U : 0U);
    return taken || !may_use(job.may_use, host) ? 0 : own + free_[host];
  }

  // Its hosts with the most workers first; of the others those with the least room that is enough for the rest.
  std::optional<std::vector<Piece>> place_on(const Resident& job, std::uint32_t count) const {
    std::vector<std::uint32_t> hosts(free_.size());
    std::iota(hosts.begin(), hosts.end(), 0U);
    std::erase_if(hosts, [&](std::uint32_t host) { return room(job, host, count > 1) == 0; });
    std::vector<Piece> to;
    std::uint32_t left = slots_of(job.held);
    for (std::uint32_t chosen = 0; chosen < count && left > 0 && !hosts.empty(); ++chosen) {
      const auto next = *std::min_element(hosts.begin(), hosts.end(), [&](std::uint32_t a, std::uint32_t b) {
        const std::uint32_t room_a = room(job, a, count > 1), room_b = room(job, b, count > 1);
        const bool all_a = room_a >= left, all_b = room_b >= left;
        if (all_a != all_b) return all_a;
        const std::uint32_t own_a = slots_on(job.held, a), own_b = slots_on(job.held, b);
        if (all_a && own_a != own_b) return own_a > own_b;
        if (room_a != room_b) return all_a ? room_a < room_b : room_a > room_b;
        return own_a != own_b ? own_a > own_b : a < b;
      });
      const std::uint32_t slots = std::min(left, room(job, next, count > 1));
      to.push_back({next, slots});
      left -= slots;
      std::erase(hosts, next);
    }
    if (left > 0) return std::nullopt;
    std::sort(to.begin(), to.end(), [](const Piece& a, const Piece& b) { return a.host < b.host; });
    return to;
  }

  void gather(std::size_t job) {
    const Resident& resident = residents_[job];
    for (std::uint32_t count = 1; count < resident.held.size(); ++count) {
      auto to = place_on(resident, count);
      if (!to) continue;
      const double cost = price(resident, moved(resident, *to));
      return offer({{{job, std::move(*to)}}, SIZE_MAX, gain(resident, count), cost});
    }
  }

  // --- Make room

  // Until so many slots of some host are free by themselves.
  double wait_s(const Seeker& seeker) const {
    double least_s = std::numeric_limits<double>::infinity();
    for (std::uint32_t host = 0; host < free_.size(); ++host) {
      if (!may_use(seeker.may_use, host)) continue;
      std::vector<std::pair<double, std::uint32_t>> ends;
      for (const Resident& resident : residents_) {
        if (const std::uint32_t slots = slots_on(resident.held, host)) ends.emplace_back(resident.left_s, slots);
      }
      std::sort(ends.begin(), ends.end());
      std::uint32_t room = free_[host];
      double at_s = 0;
      for (const auto& [end_s, slots] : ends) {
        if (room >= seeker.slots) break;
        room += slots;
        at_s = end_s;
      }
      if (room >= seeker.slots) least_s = std::min(least_s, at_s);
    }
    return least_s;
  }

  // The jobs that leave a host: those of few slots first, each as a whole to the host that it fits best.
  std::optional<Repair> clear(std::uint32_t host, std::uint32_t missing) const {
    std::vector<std::size_t> here;
    for (std::size_t job = 0; job < residents_.size(); ++job) {
      const Resident& resident = residents_[job];
      if (resident.may_move && resident.held.size() == 1 && resident.held.front().host == host) here.push_back(job);
    }
    std::stable_sort(here.begin(), here.end(), [&](std::size_t a, std::size_t b) {
      return residents_[a].held.front().slots < residents_[b].held.front().slots;
    });
    std::vector<std::uint32_t> left = free_;
    Repair repair;
    for (const std::size_t job : here) {
      if (missing == 0) break;
      const Resident& resident = residents_[job];
      const std::uint32_t slots = resident.held.front().slots;
      std::uint32_t best = UINT32_MAX;
      for (std::uint32_t other = 0; other < left.size(); ++other) {
        const bool fits = other != host && left[other] >= slots && may_use(resident.may_use, other);
        if (fits && (best == UINT32_MAX || left[other] < left[best])) best = other;
      }
      if (best == UINT32_MAX) continue;
      left[best] -= slots;
      missing -= std::min(missing, slots);
      repair.moves.push_back({job, {{best, slots}}});
      repair.price_slot_s += price(resident, slots);
    }
    if (missing > 0) return std::nullopt;
    return repair;
  }

  void make_room(std::size_t number) {
    const Seeker& seeker = seekers_[number];
    const bool enough = std::accumulate(free_.begin(), free_.end(), 0U) >= seeker.slots;
    const double later_s = enough ? wait_s(seeker) : 0;
    if (!(later_s > 0)) return;
    for (std::uint32_t host = 0; host < free_.size(); ++host) {
      if (!may_use(seeker.may_use, host) || free_[host] == 0) continue;
      auto repair = clear(host, seeker.slots - std::min(seeker.slots, free_[host]));
      if (!repair || repair->moves.empty()) continue;
      repair->seeker = number;
      repair->gain_slot_s = seeker.slots * std::min(later_s, kLongestWait_s);
      offer(std::move(*repair));
    }
  }

  static constexpr double kLongestWait_s = 1e6;  // where no end is known

  const std::vector<std::uint32_t>& free_;
  const std::vector<Resident>& residents_;
  const std::vector<Seeker>& seekers_;
  std::vector<std::uint32_t> spanning_;  // by host, jobs that span hosts
  Repair best_;
};

}  // namespace

double rest_s(double start_s) {
  constexpr double kRestsPerStart = 10, kLeastRest_s = 1, kLongestRest_s = 300;
  return std::clamp(kRestsPerStart * start_s, kLeastRest_s, kLongestRest_s);
}

Repair find_repair(const std::vector<std::uint32_t>& free, const std::vector<Resident>& residents,
                   const std::vector<Seeker>& seekers) {
  return Finder(free, residents, seekers).find();
}

}  // namespace elastictrain::heuristics::placement
