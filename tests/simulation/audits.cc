// The records of a simulated worker's training that it reports: the samples that it used, and checkpoints.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/simulation/worker_process.h"
#include "tests/simulation/world.h"

namespace elastictrain::simulation {
namespace {

using namespace protocol;
constexpr std::size_t kRecentParts = 256;

}  // namespace

void WorkerProcess::audit(const CommittedStep& step) {
  const std::uint64_t every = world_.setup.program.audit_every;
  if (every == 0) return;
  std::vector<AuditStep> mine;
  for (std::size_t i = 0; i < next_shares_.size(); ++i) {
    if (!part_counts(next_shares_[i])) continue;
    auto pieces = cut_.part(i);
    if (pieces.empty()) pieces.push_back({cut_.pieces.empty() ? 0 : cut_.pieces.front().first, 0});
    for (const auto& [first, count] : pieces) {
      AuditStep record{.generation = step.generation,
                       .step = step.step,
                       .epoch = cut_.epoch,
                       .first_position = first,
                       .count = count};
      if (next_shares_[i].worker == id_) {
        record.hashed = mine.empty() && step.step % every == 0;
        if (record.hashed) record.state_hash = step.after;
        mine.push_back(record);
      } else {
        record.state_hash = next_shares_[i].worker.value;
        recent_parts_.push_back(record);
        if (recent_parts_.size() > kRecentParts) recent_parts_.pop_front();
      }
    }
  }
  audits_.steps.insert(audits_.steps.end(), mine.begin(), mine.end());
}

// Lost members may not have reported the samples that they used.
void WorkerProcess::audit_for_the_lost(const std::vector<WorkerId>& holders) {
  const auto holds = [&](WorkerId worker) {
    return std::find(holders.begin(), holders.end(), worker) != holders.end();
  };
  if (!holds(id_)) return;
  std::map<WorkerId, std::vector<AuditStep>> of;
  for (AuditStep record : recent_parts_) {
    const WorkerId worker{static_cast<std::uint32_t>(record.state_hash)};
    record.state_hash = 0;
    of[worker].push_back(record);
  }
  // Of a holder that has died since, the others do not know what it did not report.
  std::erase_if(world_.unreported, [&](WorkerId lost) { return !holds(lost); });
  for (auto& [worker, records] : of) {
    if (!holds(worker)) audits_for_others_.push_back({.steps = std::move(records), .of = worker});
  }
  const bool any_lost =
      std::any_of(assignment_.members.begin(), assignment_.members.end(),
                  [&](const Member& m) { return !holds(m.worker); }) ||
      std::any_of(next_shares_.begin(), next_shares_.end(), [&](const auto& share) { return !holds(share.worker); });
  if (!any_lost) return send_audits();
  // The worker cannot report the steps behind a state that it received, and the workers that could may be lost.
  if (const auto received = std::exchange(received_, std::nullopt)) {
    account_for_state(received->generation, received->progress);
  }
  send_audits();
}

// The samples of a checkpoint or a state: the workers that used them may have been lost with their last records.
void WorkerProcess::account_for_state(Generation generation, const state::Progress& progress) {
  if (world_.setup.program.audit_every == 0) return;
  const state::SamplerState& sampler = progress.sampler;
  WorkerAudit audit{.from_checkpoint = true};
  std::uint64_t at = 0;
  const auto used = [&](std::uint64_t last) {
    audit.steps.push_back({.generation = generation,
                           .step = progress.committed_step,
                           .epoch = sampler.epoch,
                           .first_position = at,
                           .count = last - at});
  };
  for (const state::Interval& piece : sampler.returned) {
    if (piece.first > at) used(piece.first);
    at = piece.first + piece.count;
  }
  used(std::max(at, sampler.cursor));
  audits_for_others_.push_back(std::move(audit));
}

void WorkerProcess::send_audits() {
  std::vector<WorkerAudit> messages = std::exchange(audits_for_others_, {});
  if (!audits_.steps.empty()) messages.push_back(std::exchange(audits_, {}));
  for (WorkerAudit& audit : messages) {
    audit.batch = ++audit_batch_;
    world_.log(id_, [&] {
      std::string text = "accounts" + (audit.of.value == 0 ? "" : " for " + to_string(audit.of)) +
                         (audit.from_checkpoint ? " for the checkpoint:" : ":");
      for (const AuditStep& step : audit.steps) {
        text += " " + std::to_string(step.step) + "=" + std::to_string(step.first_position) + "+" +
                std::to_string(step.count);
      }
      return text;
    });
    say(std::move(audit));
  }
}

void WorkerProcess::checkpoint(bool in_background) {
  const std::uint64_t every = world_.setup.program.checkpoint_every;
  const bool writes = !in_background || rank() == 0;
  if (every == 0 || !writes || checkpoint_writing_ || !machine_.has_state()) return;
  Checkpoint written;
  written.facts = {assignment_.generation, progress_.committed_step, chain_};
  written.progress = progress_;
  written.lineage = assignment_.lineage;
  world_.oracle.writes_checkpoint(id_, written.facts);
  if (!in_background) {
    if (!world_.disk.full) world_.disk.checkpoints.push_back(std::move(written));
    return;
  }
  checkpoint_writing_ = true;
  world_.queue.after(world_.rng.time(Micros(3'000), Micros(300'000)),
                     [this, written = std::move(written), life = std::weak_ptr(life_)] {
                       if (life.expired()) return;
                       deliver([this, written] {
                         checkpoint_writing_ = false;
                         if (!world_.disk.full) world_.disk.checkpoints.push_back(written);
                       });
                     });
}

void WorkerProcess::load_checkpoint() {
  const bool asked = std::find(environment_.begin(), environment_.end(), "ELASTICTRAIN_RESUME=1") != environment_.end();
  if (!asked) return;
  const auto chosen = world_.disk.choose(lineage_in_environment(), assignment_.lineage);
  std::vector<CheckpointFacts> complete;
  for (const Checkpoint& each : world_.disk.checkpoints) complete.push_back(each.facts);
  world_.oracle.reads_checkpoint(id_, chosen ? std::optional(chosen->facts) : std::nullopt, complete);
  world_.log(id_, [&] {
    std::string text = "looks for a checkpoint, lineage " + lineage_in_environment() + ";";
    for (const Fence& fence : assignment_.lineage) {
      text += " " + std::to_string(fence.generation) + ":" + std::to_string(fence.first_step);
    }
    return text + (chosen ? ": takes step " + std::to_string(chosen->facts.step) : ": finds none");
  });
  if (!chosen) return;
  chain_ = chosen->facts.chain;
  progress_ = chosen->progress;
  std::vector<WorkerId> members;
  for (const Member& member : assignment_.members) members.push_back(member.worker);
  world_.on_start_from_checkpoint(members);
}

std::string WorkerProcess::lineage_in_environment() const {
  const std::string name = "ELASTICTRAIN_LINEAGE=";
  for (const std::string& entry : environment_) {
    if (entry.starts_with(name)) return entry.substr(name.size());
  }
  return {};
}

}  // namespace elastictrain::simulation
