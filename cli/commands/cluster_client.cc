#include "cli/commands/cluster_client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::cli {
namespace {

using ClientClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kClusterPatience{30};
constexpr Millis kConnectAgain{20};

Error no_answer(const std::string& directory, const std::string& why) {
  return {ErrorCode::kUnavailable, "the cluster in " + directory + " does not answer: " + why};
}

// A busy cluster has a place in its queue again soon.
Result<transport::OwnedDescriptor> connect_to_cluster(const std::string& directory, ClientClock::time_point until) {
  for (;; std::this_thread::sleep_for(kConnectAgain)) {
    auto socket = transport::connect_local(cluster::socket_of_cluster(directory));
    if (socket.ok()) return socket;
    const Error error = socket.error();
    const bool is_busy = error.code == ErrorCode::kTimeout;
    if (is_busy && ClientClock::now() < until) continue;
    if (is_busy) return no_answer(directory, error.message);
    return Error{ErrorCode::kUnavailable,
                 error.code == ErrorCode::kUnavailable
                     ? "no cluster is running in " + directory + "; start one with: elastictrain cluster cluster.toml"
                     : "cannot reach the cluster in " + directory + ": " + error.message};
  }
}

// Also if it is too busy to say so.
bool is_running(const std::string& directory) {
  return transport::has_listener(cluster::socket_of_cluster(directory));
}

Error closed_by(const std::string& directory) {
  if (is_running(directory)) {
    return no_answer(directory, "it closed the connection; you may not be allowed to use it (access)");
  }
  return {ErrorCode::kUnavailable,
          "the cluster in " + directory +
              " ended before it answered, and its runs train on; start it again with: "
              "elastictrain cluster cluster.toml. Then elastictrain queue shows what it knows"};
}

Result<std::string> talk_to(const std::string& directory, const MakeRequest& make_request) {
  const auto until = ClientClock::now() + kClusterPatience;
  const auto socket = connect_to_cluster(directory, until);
  if (!socket.ok()) return socket.error();
  const auto peer = transport::peer_of(socket->value());
  if (!peer) return no_answer(directory, "the system does not say whose it is");
  auto answer = transport::exchange_lines(socket->value(), json_text(make_request(peer->uid == ::geteuid())), until);
  if (answer.ok()) return answer;
  if (answer.error().code == ErrorCode::kPeerLost) return closed_by(directory);
  return no_answer(directory, answer.error().message);
}

std::vector<std::string> running_clusters(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    if (is_running(entry.path())) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Argument cluster_flag(std::string& target) {
  return value("--cluster", "NAME|PATH",
               "the cluster; default: $ELASTICTRAIN_CLUSTER, else the only one that is running", target);
}

Argument cluster_journal_flag(std::string& target) {
  return value("--cluster", "NAME|PATH", "the journal of a cluster, which need not be running, instead of a run's",
               target);
}

Result<std::string> directory_of_cluster(const std::string& name_or_path) {
  if (name_or_path.find('/') == std::string::npos) {
    if (Status good = check_run_name(name_or_path); !good.ok()) {
      return Error{ErrorCode::kInvalid,
                   "'" + name_or_path + "' cannot name a cluster: use letters, digits, '.', '_' and '-'"};
    }
    const auto state = state_directory();
    if (!state.ok()) return state.error();
    return *state + "/clusters/" + name_or_path;
  }
  std::string path = name_or_path;
  const std::string socket = std::string("/") + cluster::kClusterSocketName;
  if (path.ends_with(socket)) path.resize(path.size() - socket.size());
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<std::string> find_cluster(const std::string& name_or_path) {
  const char* const variable = std::getenv("ELASTICTRAIN_CLUSTER");
  const std::string chosen = !name_or_path.empty() ? name_or_path : variable != nullptr ? variable : "";
  if (!chosen.empty()) return directory_of_cluster(chosen);
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  const std::vector<std::string> names = running_clusters(*state + "/clusters");
  if (names.size() == 1) return *state + "/clusters/" + names.front();
  return Error{ErrorCode::kUnavailable,
               names.empty()
                   ? "no cluster is running; start one with: elastictrain cluster cluster.toml, or name one that "
                     "is elsewhere: --cluster PATH"
                   : "several clusters are running, name one by --cluster: " + join(names, ", ")};
}

ClusterAnswer ask_cluster(const std::string& name_or_path, const nlohmann::json& request) {
  return ask_cluster(name_or_path, MakeRequest([&request](bool) { return request; }));
}

ClusterAnswer ask_cluster(const std::string& name_or_path, const MakeRequest& make_request) {
  const auto directory = find_cluster(name_or_path);
  if (!directory.ok()) {
    const bool denied = directory.error().code == ErrorCode::kDenied;
    return {{}, denied ? kExitNoPermission : kExitUnavailable, directory.error().message};
  }
  const auto answer = talk_to(*directory, make_request);
  if (!answer.ok()) return {{}, kExitUnavailable, answer.error().message};
  nlohmann::json object = parse_json(*answer);
  if (!object.is_object() || !object.contains("ok"))
    return {{}, kExitProtocol, "the cluster sent a malformed answer: is it one of another version of elastictrain?"};
  if (object["ok"] == true) return {object, kExitSuccess, object.value("text", "")};
  return {object, object.value("status", static_cast<int>(kExitFailure)),
          printable(object.value("text", "it refused"), Lines::kOne)};
}

int show_answer(std::string_view command, const ClusterAnswer& answer) {
  if (answer.status != 0) {
    std::cerr << "elastictrain " << command << ": " << answer.text << "\n";
  } else if (!answer.text.empty()) {
    std::cout << answer.text << "\n";
  }
  return answer.status;
}

}  // namespace elastictrain::cli
