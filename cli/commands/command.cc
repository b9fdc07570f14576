#include "cli/commands/command.h"

#include <utility>

namespace elastictrain::cli {
namespace {

using Kind = Argument::Kind;
using Values = std::vector<std::string>;

Argument make_argument(Kind kind, std::string&& names, std::string&& type, std::string&& help, Argument::Use use) {
  return {kind, std::move(names), std::move(type), std::move(help), std::move(use), "", {}};
}

Argument::Use store(std::string& target) {
  return [&target](const Values& values) {
    target = values.empty() ? "" : values.back();
    return Status();
  };
}

Argument::Use store(std::vector<std::string>& target) {
  return [&target](const Values& values) {
    target = values;
    return Status();
  };
}

}  // namespace

Argument&& Argument::in(std::string heading) && {
  group = std::move(heading);
  return std::move(*this);
}

Argument&& Argument::instead_of(std::vector<std::string> others) && {
  excludes = std::move(others);
  return std::move(*this);
}

Argument flag(std::string names, std::string help, bool& target) {
  return flag(std::move(names), std::move(help), [&target] { target = true; });
}

Argument flag(std::string names, std::string help, std::function<void()> use) {
  return make_argument(Kind::kFlag, std::move(names), "", std::move(help), [use = std::move(use)](const Values&) {
    use();
    return Status();
  });
}

Argument value(std::string names, std::string type, std::string help, std::string& target) {
  return make_argument(Kind::kValue, std::move(names), std::move(type), std::move(help), store(target));
}

Argument value(std::string names, std::string type, std::string help, std::function<Status(const std::string&)> use) {
  return make_argument(Kind::kValue, std::move(names), std::move(type), std::move(help),
                       [use = std::move(use)](const Values& values) { return use(values.back()); });
}

Argument list(std::string names, std::string type, std::string help, std::vector<std::string>& target) {
  return list(std::move(names), std::move(type), std::move(help), store(target));
}

Argument list(std::string names, std::string type, std::string help, Argument::Use use) {
  return make_argument(Kind::kList, std::move(names), std::move(type), std::move(help), std::move(use));
}

Argument word(std::string name, std::string type, std::string help, std::string& target) {
  return make_argument(Kind::kWord, std::move(name), std::move(type), std::move(help), store(target));
}

Argument words(std::string name, std::string type, std::string help, std::vector<std::string>& target) {
  return make_argument(Kind::kWords, std::move(name), std::move(type), std::move(help), store(target));
}

std::function<Status()> always(Invocation& invocation, std::function<int()> action) {
  return [&invocation, action = std::move(action)] {
    invocation.action = action;
    return Status();
  };
}

Error wrong_usage(std::string text) {
  return {ErrorCode::kInvalid, std::move(text)};
}

std::vector<Command> all_commands(Invocation& invocation) {
  std::vector<Command> commands;
  for (const auto make :
       {make_run,        make_torchrun, make_init,   make_check,   make_plan,     make_simulate,
        make_status,     make_top,      make_resize, make_replace, make_drain,    make_undrain,
        make_topology,   make_stop,     make_list,   make_logs,    make_attach,   make_events,
        make_explain,    make_report,   make_prune,  make_cluster, make_submit,   make_queue,
        make_sweep,      make_cancel,   make_pause,  make_resume,  make_priority, make_worker,
        make_completion, make_complete, make_man,    make_agent,   make_nccl_id,  make_accelerators}) {
    commands.push_back(make(invocation));
  }
  return commands;
}

}  // namespace elastictrain::cli
