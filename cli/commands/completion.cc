// `elastictrain completion bash|zsh`: a script generated from the parser, so that it cannot become outdated.
#include "cli/commands/completion.h"

#include <iostream>
#include <memory>

#include "cli/exit_code.h"

namespace elastictrain::cli {
namespace {

std::string flags_of(const CLI::App& command) {
  std::string flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags += " --" + name;
    for (const std::string& name : option->get_snames()) flags += " -" + name;
  }
  return flags;
}

// Commands that take the name of a live run. The names are the directories with a control socket.
constexpr const char* kRunNames =
    "        local state=\"${ELASTICTRAIN_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/elastictrain}\"\n"
    "        words=\"$words $(cd \"$state\" 2>/dev/null && ls -d */control.sock 2>/dev/null | sed "
    "'s,/control.sock,,')\"\n";

std::string bash_script(const CLI::App& app) {
  std::string cases;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    names += " " + command->get_name();
    cases += "      " + command->get_name() + ")\n        words=\"" + flags_of(*command) + "\"\n";
    if (command->get_group() == kGroupBeside) cases += kRunNames;
    cases += "        ;;\n";
  }
  return "_elastictrain() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    words=\"" +
         names + flags_of(app) +
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

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const std::string bash = bash_script(app);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + bash : bash;
}

void add_completion(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("completion", "print a completion script: source <(elastictrain completion bash)");
  const auto shell = std::make_shared<std::string>();
  command->group(kGroupOther);
  command->add_option("shell", *shell, "the shell")->type_name("bash|zsh");
  command->final_callback([&app, &invocation, shell] {
    if (*shell != "bash" && *shell != "zsh") {
      const std::string wrong = shell->empty() ? "" : "'" + *shell + "' is not bash or zsh; ";
      throw CLI::ValidationError(wrong + "say which shell, e.g. source <(elastictrain completion bash)");
    }
    invocation.action = [&app, shell] {
      std::cout << completion_script(app, *shell);
      return kExitSuccess;
    };
  });
}

}  // namespace elastictrain::cli
