#include "cli/commands/script_check.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/commands/exit_code.h"
#include "cli/commands/torch_check.h"
#include "launcher/python_command.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kModule = "elastictrain.torch.check";

int refuse(const std::string& reason, int status) {
  std::cerr << "elastictrain check: --script: " << reason << "\n";
  return status;
}

int become(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::cout.flush();
  ::execvp(argv[0], argv.data());
  return refuse("cannot start " + words.front() + ": " + std::strerror(errno), kExitUnavailable);
}

}  // namespace

int check_script(const std::vector<std::string>& program) {
  std::vector<std::string> words = program;
  if (!words.empty() && words.front().ends_with(".py")) words.insert(words.begin(), "python3");
  auto python = launcher::python_command(words);
  if (!python)
    return refuse("name a Python script: elastictrain check --script train.py --epochs 1 (elastictrain check --help)",
                  kExitUsage);
  std::vector<std::string> command = std::move(python->interpreter);
  if (!finds_package(command.front())) {
    return refuse(command.front() + " has no package elastictrain; install it there (" + command.front() +
                      " -m pip install, a wheel of scripts/wheel.sh)",
                  kExitConfig);
  }
  command.insert(command.end(), {"-m", kModule});
  command.insert(command.end(), python->program.begin(), python->program.end());
  return become(std::move(command));
}

}  // namespace elastictrain::cli
