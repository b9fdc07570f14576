#include "heuristics/simulate/cluster/hosts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elastictrain::heuristics::cluster {
namespace {

constexpr double kNeverChanges = std::numeric_limits<double>::infinity();

// Of an exponential distribution; the standard library's differ between implementations.
double time_until_failure_s(std::mt19937_64& rng, double mean_s) {
  const double uniform = (static_cast<double>(rng() >> 11) + 0.5) / 9007199254740992.0;
  return -mean_s * std::log(uniform);
}

}  // namespace

Hosts::Hosts(const HostOptions& options, std::uint64_t seed) : options_(options), rng_(seed), hosts_(options.hosts) {
  const auto slow = static_cast<std::size_t>(std::lround(options.stragglers * static_cast<double>(options.hosts)));
  for (std::size_t number = 0; number < std::min(slow, hosts_.size()); ++number) hosts_[number].is_slow = true;
  for (std::size_t left = hosts_.size(); left > 1; --left) std::swap(hosts_[left - 1], hosts_[rng_() % left]);
  for (Host& host : hosts_) {
    host.next_s = options.failure_every_s > 0 ? time_until_failure_s(rng_, options.failure_every_s) : kNeverChanges;
  }
}

std::uint32_t Hosts::slots() const {
  const auto up = std::count_if(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.is_up; });
  return static_cast<std::uint32_t>(up) * options_.slots;
}

std::vector<sharing::Host> Hosts::up() const {
  std::vector<sharing::Host> up;
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    if (hosts_[number].is_up) up.push_back({"h" + std::to_string(number), options_.slots});
  }
  return up;
}

double Hosts::next_event_s() const {
  double next_s = kNeverChanges;
  for (const Host& host : hosts_) next_s = std::min(next_s, host.next_s);
  return next_s;
}

void Hosts::lose(std::uint32_t host, std::vector<Wanted>& lost) {
  for (auto& [job, pieces] : pieces_) {
    const auto here =
        std::find_if(pieces.begin(), pieces.end(), [&](const placement::Piece& piece) { return piece.host == host; });
    if (here == pieces.end()) continue;
    lost.push_back({job, here->slots});
    pieces.erase(here);
  }
}

std::vector<Hosts::Wanted> Hosts::pass(double now_s) {
  std::vector<Wanted> lost;
  for (std::uint32_t number = 0; number < hosts_.size(); ++number) {
    Host& host = hosts_[number];
    if (host.next_s > now_s) continue;
    host.is_up = !host.is_up;
    host.next_s = now_s + (host.is_up ? time_until_failure_s(rng_, options_.failure_every_s) : kRepair_s);
    if (!host.is_up) lose(number, lost);
  }
  return lost;
}

std::vector<std::uint32_t> Hosts::place(const std::vector<Wanted>& wanted) {
  std::vector<std::uint32_t> host_slots;
  for (const Host& host : hosts_) host_slots.push_back(host.is_up ? options_.slots - host.reserved : 0);
  std::vector<placement::Job> jobs;
  for (const Wanted& one : wanted) jobs.push_back({one.slots, false, pieces(one.job)});
  auto placed = placement::place(host_slots, jobs);
  pieces_.clear();
  for (Host& host : hosts_) host.jobs = 0;
  std::vector<std::uint32_t> slots;
  for (std::size_t place = 0; place < wanted.size(); ++place) {
    slots.push_back(placed[place].slots());
    if (slots.back() == 0) continue;
    for (const auto& piece : placed[place].pieces) ++hosts_[piece.host].jobs;
    pieces_[wanted[place].job] = std::move(placed[place].pieces);
  }
  return slots;
}

double Hosts::speed(std::uint64_t job) const {
  bool slow = false, shared = false;
  for (const auto& piece : pieces(job)) {
    slow = slow || hosts_[piece.host].is_slow;
    shared = shared || hosts_[piece.host].jobs > 1;
  }
  return (slow ? kSpeedOfSlowHost : 1) * (shared ? 1 - options_.interference : 1);
}

std::vector<std::uint32_t> Hosts::free() const {
  std::vector<std::uint32_t> free;
  for (const Host& host : hosts_) free.push_back(host.is_up ? options_.slots - host.reserved : 0);
  for (const auto& [job, held] : pieces_) {
    for (const auto& piece : held) free[piece.host] -= piece.slots;
  }
  return free;
}

void Hosts::reserve(const std::vector<placement::Piece>& pieces) {
  for (const auto& piece : pieces) hosts_[piece.host].reserved += piece.slots;
}

void Hosts::release(const std::vector<placement::Piece>& pieces) {
  for (const auto& piece : pieces) hosts_[piece.host].reserved -= piece.slots;
}

void Hosts::move(std::uint64_t job, std::vector<placement::Piece> to) {
  auto& held = pieces_[job];
  for (const auto& piece : held) --hosts_[piece.host].jobs;
  for (const auto& piece : to) ++hosts_[piece.host].jobs;
  held = std::move(to);
}

double Hosts::spread(const sharing::Curve& curve, std::uint64_t job) const {
  const auto& held = pieces(job);
  return spread(curve, placement::Placed{held}.slots(), static_cast<std::uint32_t>(held.size()));
}

double Hosts::spread(const sharing::Curve& curve, std::uint32_t slots, std::uint32_t hosts) const {
  if (const auto measured = curve.on_hosts(slots, hosts)) return *measured;
  const std::uint32_t fewest = (slots + options_.slots - 1) / options_.slots;
  if (hosts <= fewest || options_.spread == 1) return 1;
  return std::pow(options_.spread, std::log2(static_cast<double>(hosts) / fewest));
}

const std::vector<placement::Piece>& Hosts::pieces(std::uint64_t job) const {
  static const std::vector<placement::Piece> none;
  const auto found = pieces_.find(job);
  return found == pieces_.end() ? none : found->second;
}

}  // namespace elastictrain::heuristics::cluster
