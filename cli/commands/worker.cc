// `elastictrain worker`: the built-in trainer, as one worker of a run or alone.
#include <csignal>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "train/builtin/loop/trainer.h"

namespace elastictrain::cli {
namespace {

std::string type_name(const train::TrainerField& field) {
  if (!field.unit.empty()) return std::string(field.unit);
  switch (field.type) {
    case train::FieldType::kText:
      return field.allowed().empty() ? "TEXT" : join(split(field.allowed(), ','), "|");
    case train::FieldType::kInteger:
      return "N";
    case train::FieldType::kNumber:
      return "NUMBER";
    case train::FieldType::kList:
      return "LIST";
  }
  return "";
}

Argument argument_of(const train::TrainerField& field, const std::shared_ptr<train::TrainerOptions>& options) {
  const std::string flag = train::flag_name(field);
  const auto set = [options, &field, flag](const std::string& text) -> Status {
    const Status good = field.set(*options, text);
    return good.ok() ? good : wrong_usage(flag + ": " + good.error().message);
  };
  const std::string normal = field.get(train::TrainerOptions());
  return value(flag, type_name(field), std::string(field.help) + (normal.empty() ? "" : "; default " + normal), set);
}

int train_now(const train::TrainerOptions& options) {
  const Status good = train::validate(options);
  if (good.ok()) {
    // `run` passes them on, for programs that have a use for them; their default is to end the process.
    for (const int number : {SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
    return train::run_trainer(options);
  }
  std::cerr << "elastictrain worker: " << good.error().message << "\n";
  return kExitUsage;
}

}  // namespace

Command make_worker(Invocation& invocation) {
  const auto options = std::make_shared<train::TrainerOptions>();
  std::vector<Argument> arguments;
  for (const train::TrainerField& field : train::trainer_fields()) arguments.push_back(argument_of(field, options));
  return {"worker", "the built-in trainer; alone when no run started it", kGroupTrain, arguments,
          always(invocation, [options] { return train_now(*options); })};
}

}  // namespace elastictrain::cli
