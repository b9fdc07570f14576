#include "tests/simulation/disk.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/journal_records.h"
#include "train/checkpoint/lineage.h"

namespace elastictrain::simulation {

using protocol::Fence;

bool Disk::journal(Instant now, const core::Journal& record) {
  if (full) {
    ++lost_;
    return false;
  }
  append(now, record);
  const bool again = lost_ != 0;
  if (again) append(now, journal_gap(std::exchange(lost_, 0)));
  return again;
}

void Disk::append(Instant now, const core::Journal& record) {
  if (!journal_.empty() && journal_.back() != '\n') journal_ += '\n';
  journal_ += line_of(record, ++sequence_, now);
  if (record.sync) synced_bytes_ = journal_.size();
}

void Disk::lose_unsynced(Rng& rng) {
  ++boots;
  journal_.resize(synced_bytes_ + rng.below(static_cast<std::uint32_t>(journal_.size() - synced_bytes_ + 1)));
  audits.resize(rng.below(static_cast<std::uint32_t>(audits.size() + 1)));
}

std::optional<Checkpoint> Disk::choose(const std::string& of_environment, const std::vector<Fence>& of_plan) const {
  checkpoint::Lineage lineage = checkpoint::merge(fences, of_plan);
  if (const auto parsed = checkpoint::parse_lineage(of_environment)) lineage = checkpoint::merge(lineage, *parsed);
  std::vector<checkpoint::Identity> found;
  for (const Checkpoint& each : checkpoints) {
    lineage = checkpoint::merge(lineage, each.lineage);
    found.push_back({each.facts.generation, each.facts.step});
  }
  const auto order = checkpoint::newest_first(found, lineage);
  if (order.empty()) return std::nullopt;
  const auto chosen = std::find_if(checkpoints.begin(), checkpoints.end(), [&](const Checkpoint& each) {
    return each.facts.generation == order.front().generation && each.facts.step == order.front().step;
  });
  return *chosen;
}

void Disk::tear(Instant now, const core::Journal& record, Rng& rng) {
  if (full) return;
  const std::size_t before = journal_.size();
  const std::size_t synced = synced_bytes_;
  append(now, record);
  journal_.resize(before + rng.below(static_cast<std::uint32_t>(journal_.size() - before)));
  synced_bytes_ = synced;  // the process ended before
}

}  // namespace elastictrain::simulation
