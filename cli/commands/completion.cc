// `elastictrain completion bash|zsh|fish`: a short script for each shell, which asks `elastictrain complete`.
#include "cli/commands/completion.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/cluster_client.h"
#include "cli/commands/completion_words.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/known_runs.h"
#include "cli/commands/run_client.h"
#include "cli/output/printable.h"
#include "supervisor/control/control_client.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
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
