#include "tests/simulation/disk.h"

#include <algorithm>
#include <utility>

#include "train/checkpoint/lineage.h"

namespace elastictrain::simulation {

using protocol::Fence;

bool Disk::journal(Instant now, const std::string& event, const Fields& fields) {
  if (full) {
    ++lost_;
    return false;
  }
  append(now, event, fields);
  const bool again = lost_ != 0;
  if (again) append(now, "journal_gap", {{"lost", std::to_string(std::exchange(lost_, 0))}});
  return again;
}

void Disk::append(Instant now, const std::string& event, const Fields& fields) {
  const std::string seconds = std::to_string(static_cast<double>(now.time_since_epoch().count()) / 1e6);
  if (!journal_.empty() && journal_.back() != '\n') journal_ += '\n';
  journal_ += "{\"seq\":" + std::to_string(++sequence_) + ",\"t\":" + seconds + ",\"up\":" + seconds + ",\"event\":\"" +
              event + "\"";
  for (const auto& [name, value] : fields) journal_ += ",\"" + name + "\":" + value;
  journal_ += "}\n";
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

void Disk::tear(Instant now, const std::string& event, const Fields& fields, Dice& dice) {
  if (full) return;
  const std::size_t before = journal_.size();
  append(now, event, fields);
  journal_.resize(before + dice.below(static_cast<std::uint32_t>(journal_.size() - before)));
}

}  // namespace elastictrain::simulation
