// `elastictrain completion bash|zsh`: a script generated from the parser, so that it cannot become outdated.
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

}  // namespace

std::string completion_script(const std::vector<Command>& commands, const std::string& shell) {
  const std::string bash = bash_script(commands);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + bash : bash;
}

Command make_completion(Invocation& invocation) {
  const auto shell = std::make_shared<std::string>();
  const auto choose = [&invocation, shell]() -> Status {
    if (*shell != "bash" && *shell != "zsh") {
      const std::string wrong = shell->empty() ? "" : "'" + *shell + "' is not bash or zsh; ";
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
          {word("shell", "bash|zsh", "the shell", *shell)},
          choose};
}

}  // namespace elastictrain::cli
