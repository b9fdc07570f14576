#include "supervisor/core/ledger.h"

#include <algorithm>
#include <iterator>

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

std::uint64_t IntervalSet::end() const {
  return pieces_.empty() ? 0 : pieces_.rbegin()->second;
}

std::optional<std::uint64_t> IntervalSet::first_gap() const {
  if (pieces_.empty()) return std::nullopt;
  if (pieces_.begin()->first > 0) return 0;
  if (pieces_.size() == 1) return std::nullopt;
  return pieces_.begin()->second;
}

std::vector<std::string> Ledger::record(WorkerId worker, const protocol::WorkerAudit& audit) {
  std::vector<std::string> violations;
  for (const protocol::AuditStep& step : audit.steps) {
    steps_ = std::max(steps_, step.step);
    record_positions(worker, step, violations);
    if (step.hashed) record_hash(worker, step, violations);
  }
  return violations;
}

void Ledger::record_positions(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations) {
  const std::uint64_t repeated = epochs_[step.epoch].add(step.first_position, step.count);
  if (repeated == 0) return;
  repeated_ += repeated;
  violations.push_back(std::to_string(repeated) + " samples counted twice: step " + std::to_string(step.step) + " of " +
                       to_string(worker) + " used positions " + std::to_string(step.first_position) + " to " +
                       std::to_string(step.first_position + step.count) + " of epoch " + std::to_string(step.epoch));
}

void Ledger::record_hash(WorkerId worker, const protocol::AuditStep& step, std::vector<std::string>& violations) {
  const auto [found, fresh] = hashes_.try_emplace(step.step, Hash{worker, step.state_hash});
  if (hashes_.size() > kHashWindow) hashes_.erase(hashes_.begin());
  if (fresh) return;
  ++hashes_compared_;
  if (found->second.value == step.state_hash) return;
  ++unequal_hashes_;
  violations.push_back("states differ after step " + std::to_string(step.step) + ": " + to_string(worker) + " and " +
                       to_string(found->second.first) + " have other parameters");
}

std::uint64_t Ledger::missing_in(std::uint64_t epoch, const IntervalSet& positions) const {
  // The last epoch may have ended early (a stop, a limit of steps); an epoch that others follow must be complete.
  const bool last = epoch == epochs_.rbegin()->first;
  const std::uint64_t due = last || sample_count_ == 0 ? positions.end() : std::max(sample_count_, positions.end());
  return due - positions.size();
}

Ledger::Summary Ledger::summary() const {
  Summary summary;
  summary.steps = steps_;
  summary.epochs = epochs_.size();
  summary.repeated = repeated_;
  summary.hashes_compared = hashes_compared_;
  summary.unequal_hashes = unequal_hashes_;
  for (const auto& [epoch, positions] : epochs_) {
    summary.samples += positions.size();
    summary.missing += missing_in(epoch, positions);
  }
  return summary;
}

}  // namespace elastictrain::core
