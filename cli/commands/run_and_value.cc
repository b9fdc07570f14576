#include "cli/commands/run_and_value.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/config/checks.h"

namespace elastictrain::cli {
namespace {

using Words = std::vector<std::string>;

RunAndValue checked(const Words& words, const ValueArgument& argument) {
  const std::string example = std::string(", e.g. ") + argument.example;
  if (words.empty()) throw CLI::ValidationError(argument.missing + example);
  if (words.size() > 2) {
    throw CLI::ValidationError("unexpected argument '" + words[2] + "'; write [NAME] " + argument.type + example);
  }
  const Status is_word = check_word(words.back());
  if (!is_word.ok()) throw CLI::ValidationError(is_word.error().message + "; " + argument.missing + example);
  return words.size() == 1 ? RunAndValue{"", words.front()} : RunAndValue{words.front(), words.back()};
}

}  // namespace

void add_run_and_value(CLI::App& command, const ValueArgument& argument, std::function<void(const RunAndValue&)> use) {
  constexpr int kAny = 1000;
  const auto words = std::make_shared<Words>();
  command.add_option("value", *words, "name of the run, when several are live; " + argument.help)
      ->expected(0, kAny)
      ->type_name(std::string("[NAME] ") + argument.type);
  command.final_callback([words, argument, use = std::move(use)] { use(checked(*words, argument)); });
}

}  // namespace elastictrain::cli
