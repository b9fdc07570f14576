// Purpose: creates the host sources. Files and commands are read again at every poll; all answers arrive on the loop.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/host_source.h"

namespace elastictrain::launcher {

// A fixed list: inline hosts, or this machine alone.
std::unique_ptr<HostSource> static_hosts(asio::io_context& io, std::vector<Host> hosts);

// A file in the formats of hostfile.h, read again at every poll, within 10 s. interval_ms 0: read once, never polled
// again.
std::unique_ptr<HostSource> hostfile_source(asio::io_context& io, std::string path, std::uint64_t interval_ms);

// A command that prints one `host:slots` per line, within `timeout_ms`; a failure includes its last line of stderr.
struct DiscoveryOptions {
  std::vector<std::string> argv;  // or {"sh", "-c", <the user's command line>}
  std::uint64_t interval_ms = 5'000;
  std::uint64_t timeout_ms = 10'000;
};
std::unique_ptr<HostSource> discovery_source(asio::io_context& io, DiscoveryOptions options);

// The user's string as a discovery command.
std::vector<std::string> shell_command(const std::string& text);

}  // namespace elastictrain::launcher
