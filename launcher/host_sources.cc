#include "launcher/host_sources.h"

#include <asio/post.hpp>
#include <functional>
#include <utility>

#include "launcher/hostfile.h"
#include "launcher/input_file.h"
#include "launcher/process/command.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

using Done = std::function<void(Result<std::vector<Host>>)>;

class StaticHosts : public HostSource {
 public:
  StaticHosts(asio::io_context& io, std::vector<Host> hosts) : io_(io), hosts_(std::move(hosts)) {}
  void poll(Done done) override {
    asio::post(io_, [done = std::move(done), hosts = hosts_] { done(hosts); });
  }
  std::uint64_t interval_ms() const override { return 0; }

 private:
  asio::io_context& io_;
  std::vector<Host> hosts_;
};

Result<std::vector<Host>> read_hostfile(const std::string& path, const DiscoveryOptions& options,
                                        const CommandEnd& end) {
  const auto cannot = [&](const std::string& why) {
    return Error{ErrorCode::kUnavailable, "cannot read the host file " + path + ": " + why};
  };
  if (end.output_too_large) return cannot("it has more than " + std::to_string(kMaxInputBytes) + " bytes");
  if (end.timed_out)
    return cannot("nothing was read within " + protocol::duration_text(std::chrono::milliseconds(options.timeout_ms)));
  if (end.status.signal != 0 || end.status.exit_code != 0) return cannot(last_line(end.error_text));
  auto hosts = parse_hostfile(end.output, path);
  if (hosts && hosts->empty()) return Error{ErrorCode::kInvalid, path + ": the file names no host"};
  return hosts;
}

Result<std::vector<Host>> read_discovery(const std::string& program, const DiscoveryOptions& options,
                                         const CommandEnd& end) {
  const std::string what = "the discovery command " + program;
  const std::string summary = last_line(end.error_text);
  const std::string reason = summary.empty() ? std::string() : ": " + summary;
  if (end.output_too_large) return Error{ErrorCode::kInvalid, what + " prints too much for a list of hosts"};
  if (end.timed_out) {
    return Error{
        ErrorCode::kTimeout,
        what + " took longer than " + protocol::duration_text(std::chrono::milliseconds(options.timeout_ms)) + reason};
  }
  if (end.status.signal != 0 || end.status.exit_code != 0) {
    return Error{ErrorCode::kUnavailable, what + " failed with " + describe(end.status) + reason};
  }
  return parse_hostfile(end.output, "output of " + program);
}

// Runs a command at every poll; its output names the hosts.
class CommandSource : public HostSource {
 public:
  using Reader = std::function<Result<std::vector<Host>>(const DiscoveryOptions&, const CommandEnd&)>;

  CommandSource(asio::io_context& io, DiscoveryOptions options, std::size_t max_output_bytes, Reader read)
      : io_(io), options_(std::move(options)), max_output_bytes_(max_output_bytes), read_(std::move(read)) {}

  ~CommandSource() override {
    if (const auto command = running_.lock()) command->terminate();
  }

  void poll(Done done) override {
    CommandSpec spec;
    spec.argv = options_.argv;
    spec.deadline = std::chrono::milliseconds(options_.timeout_ms);
    spec.max_output_bytes = max_output_bytes_;
    auto command =
        Command::start(io_, std::move(spec), nullptr,
                       [done, read = read_, options = options_](const CommandEnd& end) { done(read(options, end)); });
    if (command) {
      running_ = *command;
      return;
    }
    asio::post(io_, [done, error = command.error()] { done(error); });
  }
  std::uint64_t interval_ms() const override { return options_.interval_ms; }

 private:
  asio::io_context& io_;
  DiscoveryOptions options_;
  std::size_t max_output_bytes_;
  Reader read_;
  std::weak_ptr<Command> running_;
};

}  // namespace

std::unique_ptr<HostSource> static_hosts(asio::io_context& io, std::vector<Host> hosts) {
  return std::make_unique<StaticHosts>(io, std::move(hosts));
}

std::unique_ptr<HostSource> hostfile_source(asio::io_context& io, std::string path, std::uint64_t interval_ms) {
  // A file system that hangs must not hold up the supervisor, so another process reads.
  DiscoveryOptions reading{.argv = {"cat", "--", path}, .interval_ms = interval_ms};
  return std::make_unique<CommandSource>(
      io, std::move(reading), kMaxInputBytes,
      [path](const DiscoveryOptions& options, const CommandEnd& end) { return read_hostfile(path, options, end); });
}

std::unique_ptr<HostSource> discovery_source(asio::io_context& io, DiscoveryOptions options) {
  const std::string program = options.argv.empty() ? "(none)" : "\"" + options.argv.back() + "\"";
  return std::make_unique<CommandSource>(
      io, std::move(options), CommandSpec().max_output_bytes,
      [program](const DiscoveryOptions& how, const CommandEnd& end) { return read_discovery(program, how, end); });
}

std::vector<std::string> shell_command(const std::string& text) {
  return {"sh", "-c", text};
}

}  // namespace elastictrain::launcher
