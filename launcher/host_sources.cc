#include "launcher/host_sources.h"

#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "launcher/hostfile.h"
#include "launcher/process/command.h"

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

Result<std::vector<Host>> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    return Error{ErrorCode::kUnavailable, "cannot read the host file " + path + ": " + std::strerror(errno)};
  }
  auto hosts = parse_hostfile(text, path);
  if (hosts && hosts->empty()) return Error{ErrorCode::kInvalid, path + ": the file names no host"};
  return hosts;
}

class HostfileSource : public HostSource {
 public:
  HostfileSource(asio::io_context& io, std::string path, std::uint64_t interval_ms)
      : io_(io), path_(std::move(path)), interval_ms_(interval_ms) {}
  void poll(Done done) override {
    asio::post(io_, [done = std::move(done), path = path_] { done(read_hostfile(path)); });
  }
  std::uint64_t interval_ms() const override { return interval_ms_; }

 private:
  asio::io_context& io_;
  std::string path_;
  std::uint64_t interval_ms_;
};

Result<std::vector<Host>> read_discovery(const std::string& program, const DiscoveryOptions& options,
                                         const CommandEnd& end) {
  const std::string what = "the discovery command " + program;
  const std::string summary = last_line(end.error_text);
  const std::string reason = summary.empty() ? std::string() : ": " + summary;
  if (end.output_too_large) return Error{ErrorCode::kInvalid, what + " prints too much for a list of hosts"};
  if (end.timed_out) {
    return Error{ErrorCode::kTimeout,
                 what + " took longer than " + std::to_string(options.timeout_ms) + " ms" + reason};
  }
  if (end.status.signal != 0 || end.status.exit_code != 0) {
    return Error{ErrorCode::kUnavailable, what + " failed with " + describe(end.status) + reason};
  }
  return parse_hostfile(end.output, "output of " + program);
}

class DiscoverySource : public HostSource {
 public:
  DiscoverySource(asio::io_context& io, DiscoveryOptions options) : io_(io), options_(std::move(options)) {}

  ~DiscoverySource() override {
    if (const auto command = running_.lock()) command->terminate();
  }

  void poll(Done done) override {
    const std::string program = options_.argv.empty() ? "(none)" : "\"" + options_.argv.back() + "\"";
    CommandSpec spec;
    spec.argv = options_.argv;
    spec.deadline = std::chrono::milliseconds(options_.timeout_ms);
    auto command = Command::start(
        io_, std::move(spec), nullptr,
        [done, program, options = options_](const CommandEnd& end) { done(read_discovery(program, options, end)); });
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
  std::weak_ptr<Command> running_;
};

}  // namespace

std::unique_ptr<HostSource> static_hosts(asio::io_context& io, std::vector<Host> hosts) {
  return std::make_unique<StaticHosts>(io, std::move(hosts));
}

std::unique_ptr<HostSource> hostfile_source(asio::io_context& io, std::string path, std::uint64_t interval_ms) {
  return std::make_unique<HostfileSource>(io, std::move(path), interval_ms);
}

std::unique_ptr<HostSource> discovery_source(asio::io_context& io, DiscoveryOptions options) {
  return std::make_unique<DiscoverySource>(io, std::move(options));
}

std::vector<std::string> shell_command(const std::string& text) {
  return {"sh", "-c", text};
}

}  // namespace elastictrain::launcher
