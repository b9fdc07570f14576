#include "heuristics/simulate/cluster/migration.h"

#include <algorithm>
#include <utility>

namespace elastictrain::heuristics::cluster {
namespace {

using placement::Piece;
using sharing::kNever;

bool same(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Piece& x, const Piece& y) { return x.host == y.host && x.slots == y.slots; });
}

// The slots of `to` that are not its own already.
std::vector<Piece> added(const std::vector<Piece>& from, const std::vector<Piece>& to) {
  std::vector<Piece> added;
  for (const Piece& piece : to) {
    const auto own = std::find_if(from.begin(), from.end(), [&](const Piece& one) { return one.host == piece.host; });
    const std::uint32_t had = own == from.end() ? 0 : own->slots;
    if (piece.slots > had) added.push_back({piece.host, piece.slots - had});
  }
  return added;
}

}  // namespace

Migration::Migration(const Cost& cost) {
  if (cost.kind == Cost::Kind::kSwap) start_s_ = cost.start_s;
  if (cost.kind == Cost::Kind::kRestart) stop_s_ = cost.start_s;
}

double Migration::next_event_s() const {
  return under_way_.empty() ? look_s_ : ready_s_;
}

void Migration::end(Hosts& hosts) {
  for (const Move& move : under_way_) hosts.release(move.reserved);
  hosts.release(std::exchange(kept_, {}));
  under_way_.clear();
  ready_s_ = kNever;
}

void Migration::overtake(Hosts& hosts, std::uint64_t job) {
  if (std::any_of(under_way_.begin(), under_way_.end(), [&](const Move& move) { return move.job == job; })) end(hosts);
}

std::vector<std::uint64_t> Migration::pass(Hosts& hosts, double now_s) {
  std::vector<std::uint64_t> arrived;
  const bool holds = std::all_of(under_way_.begin(), under_way_.end(), [&](const Move& move) {
    return same(hosts.pieces(move.job), move.from) &&
           std::all_of(move.to.begin(), move.to.end(), [&](const Piece& piece) { return hosts.is_up(piece.host); });
  });
  if (!holds) end(hosts);
  if (under_way_.empty() || now_s < ready_s_) return arrived;
  std::vector<Move> done = under_way_;
  end(hosts);
  for (Move& move : done) {
    hosts.move(move.job, std::move(move.to));
    std::erase_if(moved_, [&](const auto& one) { return one.first == move.job; });
    moved_.emplace_back(move.job, now_s);
    arrived.push_back(move.job);
    ++moves_;
  }
  return arrived;
}

double Migration::rests_until_s(const Subject& subject) const {
  double since_s = subject.changed_s;
  for (const auto& [job, at_s] : moved_) {
    if (job == subject.job) since_s = std::max(since_s, at_s);
  }
  return since_s + placement::rest_s(start_s_ + stop_s_);
}

placement::Resident Migration::resident_of(const Hosts& hosts, const Subject& subject, double now_s) const {
  placement::Resident resident;
  resident.held = hosts.pieces(subject.job);
  resident.may_move = subject.may_move && now_s >= rests_until_s(subject);
  resident.left_s = subject.left_s;
  resident.start_s = start_s_;
  resident.step_s = stop_s_;
  const std::uint32_t slots = placement::Placed{resident.held}.slots();
  for (std::uint32_t count = 1; count <= resident.held.size(); ++count) {
    resident.rate[count] = hosts.spread(*subject.curve, slots, count);
  }
  return resident;
}

void Migration::look(Hosts& hosts, const std::vector<Subject>& subjects, const std::vector<placement::Seeker>& seekers,
                     double now_s) {
  look_s_ = kNever;
  if (!under_way_.empty()) return;
  std::vector<placement::Resident> residents;
  for (const Subject& subject : subjects) {
    residents.push_back(resident_of(hosts, subject, now_s));
    const bool matters = subject.may_move && (residents.back().held.size() > 1 || !seekers.empty());
    const double rests_s = rests_until_s(subject);
    if (matters && rests_s > now_s) look_s_ = std::min(look_s_, rests_s);
  }
  const placement::Repair repair = placement::find_repair(hosts.free(), residents, seekers);
  if (!repair.moves.empty() && repair.gain_slot_s > 0) begin(hosts, repair, subjects, now_s);
}

void Migration::begin(Hosts& hosts, const placement::Repair& repair, const std::vector<Subject>& subjects,
                      double now_s) {
  for (const placement::Move& move : repair.moves) {
    const std::uint64_t job = subjects[move.job].job;
    const std::vector<Piece> from = hosts.pieces(job);
    under_way_.push_back({job, from, move.to, added(from, move.to)});
    hosts.reserve(under_way_.back().reserved);
  }
  if (repair.seeker != SIZE_MAX) {
    const std::uint32_t host = under_way_.front().from.front().host;
    if (const std::uint32_t free = hosts.free()[host]; free > 0) kept_ = {{host, free}};
    hosts.reserve(kept_);
  }
  ready_s_ = now_s + start_s_;
}

}  // namespace elastictrain::heuristics::cluster
