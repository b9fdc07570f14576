// `elastictrain worker`: the built-in trainer, as one worker of a run or alone.
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/config/text.h"
#include "cli/exit_code.h"
#include "train/builtin/trainer.h"

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

void add_field(CLI::App& command, const train::TrainerField& field,
               const std::shared_ptr<train::TrainerOptions>& options) {
  const std::string flag = train::flag_name(field);
  const auto set = [options, &field, flag](const std::string& text) {
    const Status good = field.set(*options, text);
    if (!good.ok()) throw CLI::ValidationError(flag, good.error().message);
  };
  const std::string value = field.get(train::TrainerOptions());
  command.add_option_function<std::string>(flag, set)
      ->type_name(type_name(field))
      ->description(std::string(field.help) + (value.empty() ? "" : "; default " + value));
}

int train_now(const train::TrainerOptions& options) {
  const Status good = train::validate(options);
  if (good.ok()) return train::run_trainer(options);
  std::cerr << "elastictrain worker: " << good.error().message << "\n";
  return kExitUsage;
}

}  // namespace

void add_worker(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("worker", "the built-in trainer; alone when no run started it");
  command->group(kGroupTrain);
  const auto options = std::make_shared<train::TrainerOptions>();
  for (const train::TrainerField& field : train::trainer_fields()) add_field(*command, field, options);
  command->final_callback([&invocation, options] { invocation.action = [options] { return train_now(*options); }; });
}

}  // namespace elastictrain::cli
