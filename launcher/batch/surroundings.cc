#include <asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "launcher/batch/allocation.h"
#include "launcher/process/command.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxBytes = 16 << 20;
constexpr std::chrono::seconds kPatience{10};

Result<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) {
    return Error{ErrorCode::kUnavailable, "the file " + path + " cannot be read: " + std::strerror(errno)};
  }
  if (text.size() > kMaxBytes) return Error{ErrorCode::kInvalid, "the file " + path + " is too large for a host list"};
  return text;
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
  return {std::move(variables), read_whole_file, output_of};
}

}  // namespace elastictrain::launcher
