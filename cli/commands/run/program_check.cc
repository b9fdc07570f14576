#include "cli/commands/run/program_check.h"

#include <unistd.h>

#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/commands/exit_code.h"
#include "launcher/process/command.h"
#include "launcher/python_command.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::seconds kDeadline{20};
constexpr int kLacksPackage = 93;  // no statuses of Python's own
constexpr int kTorchIsOld = 94;

// The groups of entry points are a dictionary before Python 3.10. An older torch does not load them.
constexpr const char* kQuestion = R"(
import sys, importlib.metadata
points = importlib.metadata.entry_points()
group = points.select(group="torch.backends") if hasattr(points, "select") else points.get("torch.backends", [])
if not any(point.name == "elastictrain" for point in group):
    sys.exit(93)
try:
    version = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])
except (ImportError, ValueError):
    sys.exit(0)
sys.exit(94 if version < (2, 5) else 0)
)";

bool is_python(const std::string& program) {
  return std::filesystem::path(program).filename().string().starts_with("python");
}

constexpr const char* kWhetherFound = R"(
import sys, importlib.util
sys.exit(0 if importlib.util.find_spec("elastictrain") else 93)
)";

std::optional<launcher::CommandEnd> ask(const std::string& python, const char* question) {
  asio::io_context io;
  std::optional<launcher::CommandEnd> answer;
  launcher::CommandSpec spec;
  spec.argv = {python, "-c", question};
  spec.deadline = kDeadline;
  const auto command = launcher::Command::start(
      io, std::move(spec), [](const std::string&) {}, [&](launcher::CommandEnd end) { answer = std::move(end); });
  if (!command.ok()) return std::nullopt;
  io.run();
  return answer;
}

Error not_taken_over(const std::string& reason) {
  return {ErrorCode::kInvalid, "--torch: " + reason};
}

}  // namespace

Status check_torch_package(const std::vector<std::string>& program) {
  if (program.empty() || !is_python(program.front())) return {};
  const auto answer = ask(program.front(), kQuestion);
  const int status = answer ? answer->status.exit_code : 0;
  if (status == kLacksPackage) {
    return not_taken_over(
        program.front() +
        " has no package elastictrain, so its script would train at a fixed size; install it there (" +
        program.front() + " -m pip install, a wheel of scripts/wheel.sh)");
  }
  if (status == kTorchIsOld) {
    return not_taken_over(
        program.front() +
        " has a PyTorch older than 2.5, so its script would train at a fixed size; install a newer one there (" +
        program.front() + " -m pip install 'torch>=2.5')");
  }
  return {};
}

bool finds_package(const std::string& python) {
  const auto answer = ask(python, kWhetherFound);
  return !answer || answer->status.exit_code != kLacksPackage;
}

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
