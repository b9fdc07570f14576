#include "tests/golden/describe.h"

#include <array>
#include <cstdio>

#include "supervisor/journal_codec.h"

namespace elastictrain::core {
namespace {

std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.4g", value);
  return buffer.data();
}

std::string list(const std::vector<WorkerId>& workers) {
  std::string text;
  for (WorkerId id : workers) text += (text.empty() ? "" : " ") + to_string(id);
  return text;
}

std::string message_text(const protocol::Prepare& prepare) {
  const protocol::GenerationPlan& plan = prepare.plan;
  std::string text = "prepare " + std::to_string(plan.generation) + " after " + std::to_string(plan.previous) + " \"" +
                     plan.reason + "\":";
  if (plan.members.empty()) text += " nobody";
  for (const protocol::Member& member : plan.members) {
    text += " " + to_string(member.worker) + (member.joiner ? "+" : "") + "=" + std::to_string(member.share);
  }
  if (!plan.donors.empty()) text += ", donors " + list(plan.donors);
  if (plan.fence != 0) text += ", resumes at step " + std::to_string(plan.resume_step);
  if (plan.learning_rate_factor != 1.0) text += ", learning rate x" + number(plan.learning_rate_factor);
  return text;
}
std::string message_text(const protocol::Commit& commit) {
  return "commit " + std::to_string(commit.generation);
}
std::string message_text(const protocol::Cancel& cancel) {
  return "cancel " + std::to_string(cancel.generation);
}
std::string message_text(const protocol::Dismiss& dismiss) {
  return "dismiss, " + dismiss.reason;
}
std::string message_text(const protocol::Abort& abort) {
  return "abort up to " + std::to_string(abort.fence) + ", " + abort.reason;
}
std::string message_text(const protocol::Orphaned& orphaned) {
  return "orphaned, " + orphaned.reason;
}
std::string message_text(const protocol::Reassigned& reassigned) {
  return "reassigned as " + to_string(reassigned.worker);
}
std::string message_text(const protocol::RunEpoch& run) {
  return "the run is in epoch " + std::to_string(run.epoch);
}

std::string message_text(const protocol::Disagreed& disagreed) {
  return "nobody is newer: " + disagreed.reason;
}
std::string message_text(const protocol::BoardAnswer& answer) {
  return "board answer " + std::to_string(answer.number);
}

std::string text_of(const LaunchAgent& a) {
  return "launch " + to_string(a.agent) + " on " + a.host + " with " + std::to_string(a.slots) + " slots";
}
std::string text_of(const StopAgent& a) {
  return "stop agent " + to_string(a.agent);
}
std::string text_of(const SpawnWorker& a) {
  return "spawn " + to_string(a.worker) + " on " + a.host + " slot " + std::to_string(a.slot) + " as rank " +
         std::to_string(a.rank) + " of " + std::to_string(a.world_size) + ", local " + std::to_string(a.local_rank) +
         " of " + std::to_string(a.local_world_size) + ", node " + std::to_string(a.node_rank) +
         (a.warm ? ", warm" : "");
}
std::string text_of(const KeepWarm& a) {
  return "to " + to_string(a.agent) + ": keep the process of " + to_string(a.worker);
}
std::string text_of(const EndWarm& a) {
  return "end the warm process of " + to_string(a.agent) + " that was " + to_string(a.worker);
}
std::string text_of(const StopWorker& a) {
  return "stop worker " + to_string(a.worker);
}
std::string text_of(const AskAgent& a) {
  const bool stacks = a.asked.question == protocol::Question::kStacks;
  return (stacks ? "capture stacks of " : "ask NCCL because of ") + to_string(a.asked.worker);
}
std::string text_of(const SendToWorkers& a) {
  return "to " + list(a.workers) + ": " + std::visit([](const auto& m) { return message_text(m); }, a.message);
}
std::string text_of(const ArmTimer&) {
  return "";
}
std::string text_of(const CancelTimer&) {
  return "";
}
std::string text_of(const Journal& a) {
  std::string text = (a.sync ? "journal! " : "journal ") + std::string(event_of(a.record));
  for (const auto& [name, value] : fields_of(a.record)) text += " " + name + "=" + value;
  return text;
}
std::string text_of(const Reply& a) {
  return "reply " + std::to_string(a.request) + (a.accepted ? " yes: " : " no: ") + a.text;
}
std::string text_of(const Tell& a) {
  constexpr std::array<const char*, 3> kLevels{"info", "warning", "error"};
  return std::string("tell ") + kLevels[static_cast<std::size_t>(a.level)] + ": " + a.text;
}
std::string text_of(const EndRun& a) {
  return "END " + std::to_string(a.exit_status) + ": " + a.reason + (a.suspended ? " (suspended)" : "");
}
std::string text_of(const EndProcess& a) {
  return "END OF THE PROCESS: " + a.rule;
}

}  // namespace

std::string describe(const Action& action) {
  std::string text = std::visit([](const auto& a) { return text_of(a); }, action);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "\\n");
  return text;
}

}  // namespace elastictrain::core
