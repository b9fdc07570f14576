// `elastictrain completion bash|zsh|fish`: a script generated from the parser, so that it cannot become outdated.
#include "cli/commands/completion.h"

#include <iostream>
#include <memory>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kCommonFlags = " --help -h";
constexpr const char* kProgramFlags = " --version --build-id";

std::string flags_of(const Command& command) {
  std::string flags = kCommonFlags;
  for (const Argument& argument : command.arguments) {
    if (!argument.names.starts_with('-')) continue;
    for (const std::string& name : split(argument.names, ',')) flags += " " + name;
  }
  return flags;
}

// Commands that take the name of a live run. The names are the directories with a control socket.
constexpr const char* kRunNames =
    "        local state=\"${ELASTICTRAIN_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/elastictrain}\"\n"
    "        words=\"$words $(cd \"$state\" 2>/dev/null && ls -d */control.sock 2>/dev/null | sed "
    "'s,/control.sock,,')\"\n";

std::string bash_script(const std::vector<Command>& commands) {
  std::string cases;
  std::string names;
  for (const Command& command : commands) {
    if (command.group.empty()) continue;
    names += " " + command.name;
    cases += "      " + command.name + ")\n        words=\"" + flags_of(command) + "\"\n";
    if (command.group == kGroupClient) cases += kRunNames;
    cases += "        ;;\n";
  }
  return "_elastictrain() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    words=\"" +
         names + kCommonFlags + kProgramFlags +
         "\"\n"
         "  else\n"
         "    case \"${COMP_WORDS[1]}\" in\n" +
         cases +
         "    esac\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o default -F _elastictrain elastictrain\n";
}

std::string quoted_for_fish(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_flags(const Command& command) {
  std::string text;
  const std::string begin = "complete -c elastictrain -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const Argument& argument : command.arguments) {
    if (!argument.names.starts_with('-')) continue;
    text += begin;
    for (const std::string& name : split(argument.names, ',')) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += (argument.kind == Argument::Kind::kFlag ? "" : " -r") + std::string(" -d ") +
            quoted_for_fish(argument.help) + "\n";
  }
  if (command.group == kGroupClient) text += begin + " -a '(__elastictrain_runs)'\n";
  return text;
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string script =
      "function __elastictrain_runs\n"
      "  set -l state $ELASTICTRAIN_STATE_DIR\n"
      "  test -n \"$state\"; or set state (test -n \"$XDG_STATE_HOME\"; and echo $XDG_STATE_HOME; or echo "
      "$HOME/.local/state)/elastictrain\n"
      "  for socket in $state/*/control.sock\n"
      "    basename (dirname $socket)\n"
      "  end\n"
      "end\n";
  for (const Command& command : commands) {
    if (command.group.empty()) continue;
    script += "complete -c elastictrain -n __fish_use_subcommand -a " + command.name + " -d " +
              quoted_for_fish(command.help) + "\n" + fish_flags(command);
  }
  return script;
}

}  // namespace

std::string completion_script(const std::vector<Command>& commands, const std::string& shell) {
  if (shell == "fish") return fish_script(commands);
  const std::string bash = bash_script(commands);
  if (shell != "zsh") return bash;
  // As a file of zsh's function path it is read when a completion is asked for, and answers that one, too.
  return "#compdef elastictrain\nautoload -U +X bashcompinit && bashcompinit\n" + bash +
         "if (( ${+compstate} )); then _bash_complete -o default -F _elastictrain; fi\n";
}

Command make_completion(Invocation& invocation) {
  const auto shell = std::make_shared<std::string>();
  const auto choose = [&invocation, shell]() -> Status {
    if (*shell != "bash" && *shell != "zsh" && *shell != "fish") {
      const std::string wrong = shell->empty() ? "" : "'" + *shell + "' is not bash, zsh or fish; ";
      return wrong_usage(wrong + "say which shell, e.g. source <(elastictrain completion bash)");
    }
    invocation.action = [&invocation, shell] {
      std::cout << completion_script(all_commands(invocation), *shell);
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
