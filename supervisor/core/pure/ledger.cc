#include "supervisor/core/pure/ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {

std::uint64_t IntervalSet::add(std::uint64_t first, std::uint64_t count) {
  if (count == 0) return 0;
  std::uint64_t last = first + count;
  if (last < first) last = UINT64_MAX;
  std::uint64_t overlap = 0;
  std::uint64_t merged_first = first;
  std::uint64_t merged_last = last;
  auto piece = pieces_.upper_bound(first);
  if (piece != pieces_.begin() && std::prev(piece)->second >= first) --piece;
  while (piece != pieces_.end() && piece->first <= last) {
    const std::uint64_t from = std::max(piece->first, first);
    const std::uint64_t to = std::min(piece->second, last);
    if (to > from) overlap += to - from;
    merged_first = std::min(merged_first, piece->first);
    merged_last = std::max(merged_last, piece->second);
    piece = pieces_.erase(piece);
  }
  pieces_[merged_first] = merged_last;
  size_ += last - first - overlap;
  return overlap;
}

void IntervalSet::remove(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t last = first + count < first ? UINT64_MAX : first + count;
  auto piece = pieces_.upper_bound(first);
  if (piece != pieces_.begin() && std::prev(piece)->second > first) --piece;
  while (piece != pieces_.end() && piece->first < last) {
    const auto [from, to] = *piece;
    size_ -= std::min(to, last) - std::max(from, first);
    piece = pieces_.erase(piece);
    if (from < first) pieces_[from] = first;
    if (to > last) pieces_[last] = to;
  }
}

std::uint64_t IntervalSet::end() const {
  return pieces_.empty() ? 0 : pieces_.rbegin()->second;
}

std::optional<std::uint64_t> IntervalSet::first_gap() const {
  if (pieces_.empty()) return std::nullopt;
  if (pieces_.begin()->first > 0) return 0;
  if (pieces_.size() == 1) return std::nullopt;
  return pieces_.begin()->second;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> IntervalSet::gaps(std::uint64_t first, std::uint64_t count) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing;
  const std::uint64_t last = first + count < first ? UINT64_MAX : first + count;
  auto piece = pieces_.upper_bound(first);
  if (piece != pieces_.begin() && std::prev(piece)->second > first) --piece;
  for (std::uint64_t at = first; at < last;) {
    const std::uint64_t end = piece == pieces_.end() ? last : std::min(piece->first, last);
    if (end > at) missing.emplace_back(at, end - at);
    if (piece == pieces_.end()) break;
    at = std::max(at, piece->second);
    ++piece;
  }
  return missing;
}

bool Ledger::is_void(Generation generation, Step step) const {
  const auto after = std::find_if(fences_.begin(), fences_.end(),
                                  [&](const protocol::Fence& fence) { return fence.generation > generation; });
  return after != fences_.end() && step >= after->first_step;
}

bool Ledger::is_last_before_fence(const protocol::AuditStep& step) const {
  return std::any_of(fences_.begin(), fences_.end(), [&](const protocol::Fence& fence) {
    return fence.generation > step.generation && fence.first_step == step.step + 1;
  });
}

std::vector<std::string> Ledger::record(WorkerId sender, const protocol::WorkerAudit& audit) {
  std::vector<std::string> violations;
  if (audit.batch != 0 && batches_[sender].add(audit.batch, 1) != 0) return violations;
  const bool by_itself = audit.of.value == 0 || audit.of == sender;
  const WorkerId worker = by_itself ? sender : audit.of;
  if (!by_itself) spoken_for_.insert(worker);
  const bool doubtful = spoken_for_.contains(worker);
  if (audit.counted_anew != 0 && !audit.steps.empty()) {
    count_in_other_units(audit.steps.front().generation, audit.counted_anew);
  }
  for (const protocol::AuditStep& step : audit.steps) {
    used_ = true;
    if (is_void(step.generation, step.step) || step.generation < units_from_) continue;
    steps_ = std::max(steps_, step.step);
    newest_ = std::max(newest_, step.generation);
    if (audit.from_checkpoint) {
      for (std::string& violation : claim(step)) violations.push_back(std::move(violation));
      continue;
    }
    if (!doubtful || !is_known(worker, step)) record_positions(worker, step, violations);
    if (by_itself) record_hash(worker, step, violations);
  }
  return violations;
}

// The account of the units before is closed: the checkpoint says what of them counts.
void Ledger::count_in_other_units(Generation from, std::uint64_t sample_count) {
  if (from <= units_from_) return;
  auto in_new_units = take_used_from(from);
  const std::uint64_t newest = epochs_.empty() ? 0 : epochs_.rbegin()->first;
  for (auto& [number, epoch] : epochs_) {
    if (!in_new_units.empty()) count_anew(number, epoch);
    repeated_before_ += epoch.repeated;
    // The workers have told the new count by now.
    if (number != newest) missing_before_ += epoch.positions.end() - epoch.positions.size();
  }
  units_from_ = from;
  sample_count_ = sample_count;
  covers_.clear();
  claims_.clear();
  waiting_covers_.clear();
  epochs_.clear();
  used_by_ = std::move(in_new_units);
  progressions_ = 0;
  for (const auto& [worker, list] : used_by_) {
    progressions_ += list.size();
    for (const Progression& progression : list) {
      epochs_[progression.epoch].end_step = progression.first_step + progression.steps - 1;
    }
  }
  for (auto& [number, epoch] : epochs_) count_anew(number, epoch);
}

// What workers of these generations have told, which may come before the first one's account of the checkpoint.
std::map<WorkerId, std::deque<Ledger::Progression>> Ledger::take_used_from(Generation from) {
  std::map<WorkerId, std::deque<Progression>> taken;
  for (auto& [worker, list] : used_by_) {
    for (const Progression& progression : list) {
      if (progression.generation >= from) taken[worker].push_back(progression);
    }
    std::erase_if(list, [&](const Progression& progression) { return progression.generation >= from; });
  }
  return taken;
}

void Ledger::set_sample_count(std::uint64_t count) {
  sample_count_ = count;
  if (count == 0) return;
  for (const protocol::AuditStep& step : std::exchange(waiting_covers_, {})) {
    if (!is_void(step.generation, step.step)) cover(step);
  }
}

// A generation that continues from a checkpoint has none of the later steps of those before it. Where the supervisor
// was lost together with that generation, the worker's account is all that tells of it.
std::vector<std::string> Ledger::claim(const protocol::AuditStep& step) {
  auto violations = fence({.generation = step.generation, .first_step = step.step + 1});
  if (std::find(claims_.begin(), claims_.end(), step) != claims_.end()) return violations;
  claims_.push_back(step);
  if (claims_.size() > kMaxClaims) claims_.pop_front();
  cover(step);
  return violations;
}

// The epochs before the checkpoint's epoch are complete in it.
void Ledger::cover(const protocol::AuditStep& step) {
  if (sample_count_ == 0) waiting_covers_.push_back(step);
  const std::uint64_t complete = sample_count_ == 0 ? 0 : std::min(step.epoch, kMaxCovered);
  for (std::uint64_t number = 0; number < complete; ++number) {
    fill({.generation = step.generation, .step = step.step, .epoch = number, .count = sample_count_});
  }
  fill(step);
}

void Ledger::fill(const protocol::AuditStep& piece) {
  IntervalSet& positions = epochs_[piece.epoch].positions;
  for (const auto& [first, count] : positions.gaps(piece.first_position, piece.count)) {
    positions.add(first, count);
    covers_.push_back({.generation = piece.generation,
                       .step = piece.step,
                       .epoch = piece.epoch,
                       .first_position = first,
                       .count = count});
  }
}

// A worker may report what a checkpoint holds after all: an agent that was away may bring the account of a worker that
// has exited. What accounts for the dropped rest of an epoch may come before other workers' steps of it.
void Ledger::uncover(const protocol::AuditStep& used, IntervalSet& positions) {
  const std::uint64_t end = used.first_position + used.count;
  std::vector<protocol::AuditStep> rest;
  for (protocol::AuditStep& cover : covers_) {
    const std::uint64_t from = std::max(cover.first_position, used.first_position);
    const std::uint64_t cover_end = cover.first_position + cover.count;
    const std::uint64_t to = std::min(cover_end, end);
    const bool holds = cover.epoch == used.epoch && cover.generation >= used.generation && cover.step >= used.step;
    if (!holds || from >= to) continue;
    positions.remove(from, to - from);
    cover.count = from - cover.first_position;
    if (to == cover_end) continue;
    rest.push_back(cover);
    rest.back().first_position = to;
    rest.back().count = cover_end - to;
  }
  covers_.insert(covers_.end(), rest.begin(), rest.end());
  std::erase_if(covers_, [](const protocol::AuditStep& cover) { return cover.count == 0; });
}

bool Ledger::is_known(WorkerId worker, const protocol::AuditStep& step) const {
  const auto found = used_by_.find(worker);
  if (found == used_by_.end()) return false;
  return std::any_of(found->second.rbegin(), found->second.rend(), [&](const Progression& known) {
    return known.epoch == step.epoch && known.count == step.count && step.step >= known.first_step &&
           step.step < known.first_step + known.steps &&
           step.first_position == known.first_position + (step.step - known.first_step) * known.stride;
  });
}

void Ledger::record_positions(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations) {
  Epoch& epoch = epochs_[step.epoch];
  const std::uint64_t end_before = epoch.positions.end();
  uncover(step, epoch.positions);
  const std::uint64_t repeated = epoch.positions.add(step.first_position, step.count);
  if (epoch.positions.end() > end_before) epoch.end_step = step.step;
  if (step.count > 0) remember(worker, step);
  if (repeated == 0) return;
  epoch.repeated += repeated;
  violations.push_back(protocol::counted(repeated, "sample") + " counted twice: step " + std::to_string(step.step) +
                       " of " + to_string(worker) + " used positions " + std::to_string(step.first_position) + " to " +
                       std::to_string(step.first_position + step.count) + " of epoch " + std::to_string(step.epoch));
}

void Ledger::remember(WorkerId worker, const protocol::AuditStep& step) {
  auto& list = used_by_[worker];
  if (!list.empty()) {
    Progression& last = list.back();
    const std::uint64_t expected = last.first_position + last.steps * last.stride;
    const bool even = last.steps == 1 ? step.first_position >= last.first_position : step.first_position == expected;
    if (even && last.generation == step.generation && last.epoch == step.epoch && last.count == step.count &&
        last.first_step + last.steps == step.step) {
      if (last.steps == 1) last.stride = step.first_position - last.first_position;
      ++last.steps;
      return;
    }
  }
  list.push_back({step.generation, step.epoch, step.step, 1, step.first_position, 0, step.count});
  if (++progressions_ <= kMaxProgressions || list.size() == 1) return;
  kept_from_ = std::max(kept_from_, list.front().first_step + list.front().steps);
  list.pop_front();
  --progressions_;
}

std::vector<std::string> Ledger::fence(const protocol::Fence& fence) {
  if (std::find(fences_.begin(), fences_.end(), fence) != fences_.end()) return {};
  fences_.push_back(fence);
  std::sort(fences_.begin(), fences_.end(), [](const auto& a, const auto& b) { return a.generation < b.generation; });
  for (std::size_t i = fences_.size() - 1; i > 0; --i) {
    if (fences_[i - 1].first_step >= fences_[i].first_step)
      fences_.erase(fences_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  for (auto& [worker, list] : used_by_) {
    for (Progression& progression : list) cut(progression, fence);
    progressions_ -= std::erase_if(list, [](const Progression& progression) { return progression.steps == 0; });
  }
  std::erase_if(covers_, [&](const protocol::AuditStep& cover) {
    if (cover.generation >= fence.generation || cover.step < fence.first_step) return false;
    epochs_[cover.epoch].positions.remove(cover.first_position, cover.count);
    return true;
  });
  std::erase_if(claims_, [&](const auto& claim) { return is_void(claim.generation, claim.step); });
  for (auto& [number, epoch] : epochs_) {
    if (epoch.repeated > 0) count_anew(number, epoch);
  }
  // What is void now may have been used again before a checkpoint that counts.
  if (sample_count_ != 0) {
    for (const protocol::AuditStep& claim : claims_) cover(claim);
  }
  std::erase_if(epochs_, [](const auto& entry) { return entry.second.positions.size() == 0; });
  std::erase_if(hashes_, [&](const auto& entry) {
    return entry.first >= fence.first_step && entry.second.generation < fence.generation;
  });
  if (newest_ < fence.generation) steps_ = std::min(steps_, fence.first_step - 1);
  if (fence.first_step >= kept_from_) return {};
  return {"the run goes back to step " + std::to_string(fence.first_step) + ", but the use before step " +
          std::to_string(kept_from_) + " is kept only in total: the account of these epochs may be wrong"};
}

// Forgets what the progression used in steps that the fence invalidates.
void Ledger::cut(Progression& progression, const protocol::Fence& fence) {
  if (progression.generation >= fence.generation) return;
  const Step first = fence.first_step;
  const std::uint64_t kept = first > progression.first_step ? first - progression.first_step : 0;
  if (kept >= progression.steps) return;
  Epoch& epoch = epochs_[progression.epoch];
  for (std::uint64_t i = kept; i < progression.steps; ++i) {
    epoch.positions.remove(progression.first_position + i * progression.stride, progression.count);
  }
  epoch.end_step = std::min(epoch.end_step, first);
  progression.steps = kept;
}

// If positions were used twice, removing one use has removed both.
void Ledger::count_anew(std::uint64_t number, Epoch& epoch) const {
  if (kept_from_ > 0) return;
  epoch.positions = {};
  epoch.repeated = 0;
  for (const protocol::AuditStep& cover : covers_) {
    if (cover.epoch == number) epoch.positions.add(cover.first_position, cover.count);
  }
  for (const auto& [worker, list] : used_by_) {
    for (const Progression& progression : list) {
      for (std::uint64_t i = 0; progression.epoch == number && i < progression.steps; ++i) {
        epoch.repeated += epoch.positions.add(progression.first_position + i * progression.stride, progression.count);
      }
    }
  }
}

// That the worker has come to this step makes its hash of an earlier one count.
void Ledger::record_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations) {
  const auto last = last_hashed_.find(worker);
  if (last != last_hashed_.end() && last->second.step < step.step) {
    const protocol::AuditStep hashed = last->second;
    last_hashed_.erase(last);
    compare_hash(worker, hashed, violations);
  }
  if (step.hashed) last_hashed_[worker] = step;
}

void Ledger::compare_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations) {
  if (is_void(step.generation, step.step)) return;
  const auto [found, fresh] = hashes_.try_emplace(step.step, Hash{worker, step.generation, step.state_hash});
  if (hashes_.size() > kHashWindow) hashes_.erase(hashes_.begin());
  if (fresh) return;
  ++hashes_compared_;
  if (found->second.value == step.state_hash) return;
  ++unequal_hashes_;
  violations.push_back("states differ after step " + std::to_string(step.step) + ": " + to_string(worker) + " and " +
                       to_string(found->second.first) + " have different parameters");
}

// An epoch that others follow must be complete. The last one may have ended early (a stop, a limit of steps). If the
// run ended before it had used all samples that a recovery returned, those are open, not missing: they are used before
// any position beyond the end. Rounds return some at every meeting.
std::uint64_t Ledger::missing_in(std::uint64_t number, const Epoch& epoch) const {
  const IntervalSet& positions = epoch.positions;
  const bool last = number == epochs_.rbegin()->first;
  const bool returned_are_open = last && !fences_.empty() && epoch.end_step <= fences_.back().first_step;
  if (returned_are_open || (last && returns_samples_)) return 0;
  const std::uint64_t due = last || sample_count_ == 0 ? positions.end() : std::max(sample_count_, positions.end());
  return due - positions.size();
}

std::vector<std::string> Ledger::end(const std::vector<WorkerId>& cut_off) {
  for (const WorkerId member : cut_off) {
    told_by_all_ = std::min(told_by_all_, told_by(member));
    last_hashed_.erase(member);
  }
  std::vector<std::string> violations;
  for (const auto& [worker, step] : std::exchange(last_hashed_, {})) {
    if (!is_last_before_fence(step)) compare_hash(worker, step, violations);
  }
  return violations;
}

// 0: nothing.
Step Ledger::told_by(WorkerId worker) const {
  const auto found = used_by_.find(worker);
  if (found == used_by_.end() || found->second.empty()) return 0;
  const Progression& last = found->second.back();
  return last.first_step + last.steps - 1;
}

Ledger::Summary Ledger::summary() const {
  Summary summary;
  summary.steps = steps_;
  summary.epochs = epochs_.size();
  summary.hashes_compared = hashes_compared_;
  summary.unequal_hashes = unequal_hashes_;
  for (const auto& [number, epoch] : epochs_) {
    summary.samples += epoch.positions.size();
    summary.repeated += epoch.repeated;
    (epoch.end_step < told_by_all_ ? summary.missing : summary.unaccounted) += missing_in(number, epoch);
  }
  summary.repeated += repeated_before_;
  summary.missing += missing_before_;
  if (epochs_.empty()) return summary;
  const std::uint64_t end = epochs_.rbegin()->second.positions.end();
  summary.open = sample_count_ > end ? sample_count_ - end : 0;
  return summary;
}

}  // namespace elastictrain::core
