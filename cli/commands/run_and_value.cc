#include "cli/commands/run_and_value.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/config/checks.h"

namespace elastictrain::cli {
namespace {

using Words = std::vector<std::string>;

Result<RunAndValue> checked(const Words& words, const ValueArgument& argument) {
  const std::string example = std::string(", e.g. ") + argument.example;
  if (words.empty()) return wrong_usage(argument.missing + example);
  if (words.size() > 2) {
    return wrong_usage("unexpected argument '" + words[2] + "'; write [NAME] " + argument.type + example);
  }
  const Status is_word = check_word(words.back());
  if (!is_word.ok()) return wrong_usage(is_word.error().message + "; " + argument.missing + example);
  return words.size() == 1 ? RunAndValue{"", words.front()} : RunAndValue{words.front(), words.back()};
}

}  // namespace

Command client_command(std::string name, std::string help, const ValueArgument& argument,
                       std::function<Status(const RunAndValue&)> use) {
  const auto given = std::make_shared<Words>();
  const auto choose = [given, argument, use = std::move(use)]() -> Status {
    const auto request = checked(*given, argument);
    return request.ok() ? use(*request) : request.error();
  };
  return {std::move(name),
          std::move(help),
          kGroupClient,
          {words("value", std::string("[NAME] ") + argument.type,
                 "name of the run, when several are live; " + argument.help, *given)},
          choose};
}

}  // namespace elastictrain::cli
