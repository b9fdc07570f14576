#include "tests/golden/describe.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

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

struct Description {
  const Say& say;

  std::string operator()(const protocol::Prepare& prepare) const {
    const protocol::GenerationPlan& plan = prepare.plan;
    std::string text = "prepare " + std::to_string(plan.generation) + " after " + std::to_string(plan.previous) + " " +
                       say(plan.reason) + ":";
    if (plan.members.empty()) text += " nobody";
    for (const protocol::Member& member : plan.members) {
      text += " " + to_string(member.worker) + (member.joiner ? "+" : "") + "=" + std::to_string(member.share);
    }
    if (!plan.donors.empty()) text += ", donors " + list(plan.donors);
    if (plan.fence != 0) text += ", resumes at step " + std::to_string(plan.resume_step);
    if (plan.learning_rate_factor != 1.0) text += ", learning rate x" + number(plan.learning_rate_factor);
    return text;
  }
  std::string operator()(const protocol::Commit& commit) const { return "commit " + std::to_string(commit.generation); }
  std::string operator()(const protocol::Cancel& cancel) const { return "cancel " + std::to_string(cancel.generation); }
  std::string operator()(const protocol::Dismiss& dismiss) const { return "dismiss, " + say(dismiss.reason); }
  std::string operator()(const protocol::Abort& abort) const {
    return "abort up to " + std::to_string(abort.fence) + ", " + say(abort.reason);
  }
  std::string operator()(const protocol::Orphaned& orphaned) const { return "orphaned, " + say(orphaned.reason); }
  std::string operator()(const protocol::Reassigned& reassigned) const {
    return "reassigned as " + to_string(reassigned.worker);
  }
  std::string operator()(const protocol::RunEpoch& run) const {
    return "the run is in epoch " + std::to_string(run.epoch);
  }

  std::string operator()(const protocol::Disagreed& disagreed) const {
    return "nobody is newer: " + say(disagreed.reason);
  }
  std::string operator()(const protocol::BoardAnswer& answer) const {
    return "board answer " + std::to_string(answer.number);
  }

  std::string operator()(const LaunchAgent& a) const {
    return "launch " + to_string(a.agent) + " on " + a.host + " with " + std::to_string(a.slots) + " slots";
  }
  std::string operator()(const StopAgent& a) const { return "stop agent " + to_string(a.agent); }
  std::string operator()(const SpawnWorker& a) const {
    return "spawn " + to_string(a.worker) + " on " + a.host + " slot " + std::to_string(a.slot) + " as rank " +
           std::to_string(a.rank) + " of " + std::to_string(a.world_size) + ", local " + std::to_string(a.local_rank) +
           " of " + std::to_string(a.local_world_size) + ", node " + std::to_string(a.node_rank) +
           (a.warm ? ", warm" : "");
  }
  std::string operator()(const KeepWarm& a) const {
    return "to " + to_string(a.agent) + ": keep the process of " + to_string(a.worker);
  }
  std::string operator()(const EndWarm& a) const {
    return "end the warm process of " + to_string(a.agent) + " that was " + to_string(a.worker);
  }
  std::string operator()(const StopWorker& a) const { return "stop worker " + to_string(a.worker); }
  std::string operator()(const AskAgent& a) const {
    const bool stacks = a.asked.question == protocol::Question::kStacks;
    return (stacks ? "capture stacks of " : "ask NCCL because of ") + to_string(a.asked.worker);
  }
  std::string operator()(const SendToWorkers& a) const {
    return "to " + list(a.workers) + ": " + std::visit(*this, a.message);
  }
  std::string operator()(const ArmTimer&) const { return ""; }
  std::string operator()(const CancelTimer&) const { return ""; }
  std::string operator()(const Journal& a) const {
    std::string text = (a.sync ? "journal! " : "journal ") + std::string(event_of(a.record));
    for (const auto& [name, value] : fields_of(a.record)) text += " " + name + "=" + value_text(value);
    return text;
  }
  std::string operator()(const Reply& a) const {
    return "reply " + std::to_string(a.request) + (a.accepted ? " yes: " : " no: ") + say(a.text);
  }
  std::string operator()(const Tell& a) const {
    constexpr std::array<const char*, 3> kLevels{"info", "warning", "error"};
    return std::string("tell ") + kLevels[static_cast<std::size_t>(a.level)] + ": " + say(a.text);
  }
  std::string operator()(const EndRun& a) const {
    return "END " + std::to_string(a.exit_status) + ": " + say(a.reason) + (a.suspended ? " (suspended)" : "");
  }
  std::string operator()(const EndProcess& a) const { return "END OF THE PROCESS: " + say(a.rule); }

 private:
  // A string of several words is a sentence, any other value is not.
  std::string value_text(const std::string& json) const {
    const bool is_sentence = json.front() == '"' && json.find(' ') != std::string::npos;
    return is_sentence ? say(nlohmann::json::parse(json).get<std::string>()) : json;
  }
};

std::string quoted(const std::string& sentence) {
  return "\"" + sentence + "\"";
}

}  // namespace

std::string describe(const Action& action) {
  return describe(action, quoted);
}

std::string describe(const Action& action, const Say& say) {
  std::string text = std::visit(Description{say}, action);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "\\n");
  return text;
}

}  // namespace elastictrain::core
