#include "cli/commands/completion_words.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/config/text.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::cli {
namespace {

using Words = std::vector<std::string>;
using Candidates = std::vector<Candidate>;

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add(Candidates& candidates, const Words& texts, const std::string& help) {
  for (const std::string& text : texts) candidates.push_back({text, help});
}

// The words of a type that stand for themselves: "a|b|c", but not "N|MIN:MAX" or "NAME|PATH".
void add_values(Candidates& candidates, const Argument& argument) {
  const auto parts = split(argument.type, '|');
  if (parts.size() < 2) return;
  const auto is_literal = [](const std::string& part) {
    return std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-' || c == '_';
    });
  };
  for (const std::string& part : parts) {
    if (is_literal(part)) candidates.push_back({part, ""});
  }
}

Candidates commands_of(const std::vector<Command>& commands) {
  Candidates candidates;
  for (const Command& command : commands) {
    if (!command.group.empty()) candidates.push_back({command.name, command.help});
  }
  add(candidates, {"--help", "-h"}, "what there is");
  add(candidates, {"--version", "--build-id"}, "of this binary");
  return candidates;
}

Candidates flags_of(const Command& command) {
  Candidates candidates;
  for (const Argument& argument : command.arguments) {
    if (argument.names.starts_with('-')) add(candidates, split(argument.names, ','), argument.help);
  }
  add(candidates, {"--help", "-h"}, "the flags of " + command.name);
  return candidates;
}

const Argument* flag_named(const Command& command, const std::string& word) {
  const auto found = std::find_if(command.arguments.begin(), command.arguments.end(), [&](const Argument& argument) {
    const auto names = split(argument.names, ',');
    return std::find(names.begin(), names.end(), word) != names.end();
  });
  return found == command.arguments.end() ? nullptr : &*found;
}

bool takes_live_run(const std::string& command) {
  return is_one_of(command, {"status", "top", "resize", "replace", "drain", "undrain", "topology", "stop", "logs",
                             "attach", "events", "explain", "report"});
}

bool takes_ended_run(const std::string& command) {
  return is_one_of(command, {"status", "logs", "events", "explain", "report", "prune"});
}

Candidates values_of(const std::string& command, const Argument& argument, const CompletionNames& names) {
  Candidates candidates;
  add_values(candidates, argument);
  const std::string flag = split(argument.names, ',').front();
  if (command == "run" && flag == "--resume") add(candidates, names.ended_runs(), "an ended run");
  if (command == "plan" && flag == "--journal") add(candidates, names.ended_runs(), "an ended run");
  return candidates;
}

// `before`: the words between the command and the one to complete.
Candidates words_of(const Command& command, const Words& before, const CompletionNames& names) {
  Candidates candidates;
  for (const Argument& argument : command.arguments) {
    if (!argument.names.starts_with('-')) add_values(candidates, argument);
  }
  const bool is_first = before.empty() || before.back().starts_with('-');
  if (is_first && takes_live_run(command.name)) add(candidates, names.live_runs(), "a live run");
  if ((is_first || command.name == "prune") && takes_ended_run(command.name))
    add(candidates, names.ended_runs(), "an ended run");
  if (is_one_of(command.name, {"replace", "drain", "undrain"})) {
    add(candidates, names.hosts(is_first ? "" : before.back()), "a host of the run");
  }
  if (is_one_of(command.name, {"cancel", "pause", "resume", "priority"})) add(candidates, names.jobs(), "a job");
  if (command.name == "resize") candidates.push_back({"auto", "a policy decides again"});
  if (command.name == "topology") {
    for (const auto shape : protocol::kTopologyNames) candidates.push_back({std::string(shape), "a shape"});
  }
  return candidates;
}

}  // namespace

Candidates completion_candidates(const std::vector<Command>& commands, const Words& words,
                                 const CompletionNames& names) {
  if (words.empty() || std::find(words.begin(), words.end() - 1, "--") != words.end() - 1) return {};
  Candidates candidates;
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const Command& one) { return one.name == words.front(); });
  if (words.size() == 1) {
    candidates = commands_of(commands);
  } else if (command != commands.end()) {
    const Argument* flag = flag_named(*command, words[words.size() - 2]);
    const bool is_value = words.size() > 2 && flag != nullptr && flag->kind != Argument::Kind::kFlag;
    candidates = is_value                        ? values_of(command->name, *flag, names)
                 : words.back().starts_with('-') ? flags_of(*command)
                                                 : words_of(*command, {words.begin() + 1, words.end() - 1}, names);
  }
  std::erase_if(candidates, [&](const Candidate& one) { return !one.text.starts_with(words.back()); });
  return candidates;
}

}  // namespace elastictrain::cli
