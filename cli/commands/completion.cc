#include "cli/commands/completion.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/commands/cluster_client.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "supervisor/control/control_client.h"
#include "supervisor/protocol/names.h"
#include "supervisor/run_directory.h"

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

// `elastictrain completion bash|zsh|fish`: a short script for each shell, which asks `elastictrain complete`.
namespace {

constexpr Millis kAnswerSoon{1'000};  // somebody waits at a prompt

constexpr const char* kBash = R"(_elastictrain() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _elastictrain elastictrain
)";

// As a file of zsh's function path it is read when a completion is asked for, and answers that one, too.
constexpr const char* kZsh = R"(#compdef elastictrain
_elastictrain() {
  local line
  local -a found
  for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then _describe elastictrain found; else _files; fi
}
if [[ ${funcstack[1]-} == _elastictrain ]]; then _elastictrain "$@"; else compdef _elastictrain elastictrain; fi
)";

constexpr const char* kFish = R"(function __elastictrain_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] complete -- $words[2..-1] 2>/dev/null
end
complete -c elastictrain -a '(__elastictrain_complete)'
)";

std::vector<std::string> live_runs() {
  const auto state = state_directory();
  return state.ok() ? control::list_runs(*state) : std::vector<std::string>();
}

std::vector<std::string> ended_runs() {
  const auto state = state_directory();
  if (!state.ok()) return {};
  std::vector<std::string> names = run_names(*state);
  std::erase_if(names, [&](const std::string& name) { return control::is_live(*state + "/" + name); });
  return names;
}

std::vector<std::string> hosts_of(const std::string& run) {
  const auto directory = find_live_run(run);
  if (!directory.ok()) return {};
  const auto answer = ask_run(*directory, {{"command", "status"}}, kAnswerSoon);
  std::vector<std::string> names;
  if (!answer.ok() || !answer->contains("status")) return names;
  for (const auto& host : (*answer)["status"].value("hosts", nlohmann::json::array())) {
    names.push_back(host.value("host", ""));
  }
  return names;
}

std::vector<std::string> job_ids() {
  const ClusterAnswer answer = ask_cluster("", {{"command", "queue"}});
  std::vector<std::string> names;
  if (answer.status != 0 || !answer.object.contains("cluster")) return names;
  for (const auto& job : answer.object["cluster"].value("jobs", nlohmann::json::array())) {
    names.push_back(job.value("id", ""));
  }
  return names;
}

int complete(const Invocation& invocation, const std::vector<Command>& commands) {
  const CompletionNames names{live_runs, ended_runs, hosts_of, job_ids};
  for (const Candidate& one : completion_candidates(commands, invocation.program, names)) {
    std::cout << printable(one.text, Lines::kOne) << "\t" << printable(one.help, Lines::kOne) << "\n";
  }
  return kExitSuccess;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  return shell == "fish" ? kFish : shell == "zsh" ? kZsh : kBash;
}

Command make_complete(Invocation& invocation) {
  return {"complete",
          "what may follow on a command line, for the scripts of `completion`",
          "",
          {},
          always(invocation, [&invocation] { return complete(invocation, all_commands(invocation)); }),
          "",
          true};
}

Command make_completion(Invocation& invocation) {
  const auto shell = std::make_shared<std::string>();
  const auto choose = [&invocation, shell]() -> Status {
    if (*shell != "bash" && *shell != "zsh" && *shell != "fish") {
      const std::string wrong = shell->empty() ? "" : "'" + *shell + "' is not bash, zsh or fish; ";
      return wrong_usage(wrong + "say which shell, e.g. source <(elastictrain completion bash)");
    }
    invocation.action = [shell] {
      std::cout << completion_script(*shell);
      return kExitSuccess;
    };
    return {};
  };
  return {"completion",
          "print a completion script: source <(elastictrain completion bash)",
          kGroupOther,
          {word("shell", "bash|zsh|fish", "the shell", *shell)},
          choose};
}

}  // namespace elastictrain::cli
