#include "supervisor/control/control_client.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "supervisor/control/control_protocol.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::control {
namespace {

std::string socket_of(const std::string& run_directory) {
  return run_directory + "/" + kSocketName;
}

Error cannot_reach(const std::string& run_directory, const Error& error) {
  const std::string run = "'" + run_directory.substr(run_directory.rfind('/') + 1) + "'";
  if (error.code != ErrorCode::kUnavailable) return {error.code, "cannot reach the run " + run + ": " + error.message};
  return {error.code, "no run named " + run + " is running; `elastictrain status` lists the running ones"};
}

Error no_answer(const Error& error) {
  if (error.code == ErrorCode::kTimeout) return {error.code, "the run did not answer in time; " + error.message};
  if (error.code == ErrorCode::kPeerLost) return {error.code, "the run ended before it answered"};
  return error;
}

}  // namespace

Result<std::string> ask(const std::string& run_directory, const std::string& request, Millis timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto socket = transport::connect_local(socket_of(run_directory));
  if (!socket.ok()) return cannot_reach(run_directory, socket.error());
  auto answer = transport::exchange_lines(socket->value(), request, deadline);
  if (!answer.ok()) return no_answer(answer.error());
  return answer;
}

bool is_live(const std::string& run_directory) {
  return transport::has_listener(socket_of(run_directory));
}

std::vector<std::string> list_runs(const std::string& state_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(state_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_live(entry->path().string())) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace elastictrain::control
