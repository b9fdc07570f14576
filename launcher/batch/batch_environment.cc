#include <asio/io_context.hpp>

#include "launcher/batch/allocation.h"
#include "launcher/input_file.h"
#include "launcher/process/command.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxBytes = 16 << 20;
constexpr std::chrono::seconds kPatience{10};

Result<std::string> read_host_list(const std::string& path) {
  return read_input_file(path, kMaxBytes, kPatience);
}

Result<std::string> output_of(const std::vector<std::string>& argv) {
  asio::io_context io{1};
  CommandEnd ended;
  CommandSpec spec;
  spec.argv = argv;
  spec.deadline = kPatience;
  auto command = Command::start(io, std::move(spec), nullptr, [&ended](CommandEnd end) { ended = std::move(end); });
  if (!command) return command.error();
  io.run();
  const std::string what = argv.front() + (argv.size() > 1 ? " " + argv[1] : "");
  if (ended.timed_out) return Error{ErrorCode::kTimeout, what + " does not answer"};
  if (ended.status.signal == 0 && ended.status.exit_code == 0) return std::move(ended.output);
  const std::string summary = last_line(ended.error_text);
  return Error{ErrorCode::kUnavailable,
               what + " ended with " + describe(ended.status) + (summary.empty() ? "" : ": " + summary)};
}

}  // namespace

BatchSurroundings real_surroundings(std::map<std::string, std::string> variables) {
  return {std::move(variables), read_host_list, output_of};
}

}  // namespace elastictrain::launcher
