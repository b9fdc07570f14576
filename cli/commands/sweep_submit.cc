#include "cli/commands/sweep_submit.h"

#include <signal.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <functional>
#include <sstream>
#include <vector>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "launcher/process/process.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kMostErrorBytes = 16 << 10;

launcher::ProcessSpec spec_of(const SweepTrial& trial, const SweepPlace& place) {
  launcher::ProcessSpec spec;
  spec.argv = {"/proc/self/exe", "submit", "--name", trial.name, "--cluster", place.cluster_directory + "/"};
  spec.argv.insert(spec.argv.end(), trial.words.begin(), trial.words.end());
  spec.environment = launcher::own_environment();
  spec.working_directory = place.config_directory;
  spec.standard_output = launcher::Stream::kNull;
  spec.parent_death_signal = SIGKILL;
  return spec;
}

std::string without_name_of_command(const std::string& errors) {
  constexpr std::string_view kName = "elastictrain submit: ";
  std::vector<std::string> lines;
  std::istringstream in(errors);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kName)) line.erase(0, kName.size());
    if (!line.empty()) lines.push_back(line);
  }
  return printable(join(lines, "; "), Lines::kOne);
}

}  // namespace

SubmitAnswer submit_trial(const SweepTrial& trial, const SweepPlace& place) {
  asio::io_context io;
  int status = kExitInternal;
  auto started = launcher::Process::spawn(io, spec_of(trial, place), [&status](launcher::ExitStatus exit) {
    status = exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
  });
  if (!started.ok()) return {kExitUnavailable, started.error().message};
  std::string errors;
  std::array<char, 4096> block;
  std::function<void()> read_on = [&] {
    (*started)->error().async_read_some(asio::buffer(block), [&](const asio::error_code& error, std::size_t count) {
      errors.append(block.data(), errors.size() < kMostErrorBytes ? count : 0);
      if (!error) read_on();
    });
  };
  read_on();
  io.run();
  return {status, without_name_of_command(errors)};
}

}  // namespace elastictrain::cli
