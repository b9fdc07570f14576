#include "cli/commands/cluster_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "supervisor/cluster/cluster_directory.h"
#include "supervisor/cluster/cluster_server.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

using ClientClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kClusterPatience{30};
constexpr std::chrono::seconds kNoPatience{0};
constexpr std::size_t kMaxOfAnswer = 256u << 20;

struct ClientSocket {
  ~ClientSocket() {
    if (value >= 0) ::close(value);
  }
  int value = -1;
};

Error no_answer(const std::string& directory, const std::string& why) {
  return {ErrorCode::kUnavailable, "the cluster in " + directory + " does not answer: " + why};
}

// A stopped cluster accepts as many connections as its queue holds, and then none.
Status connect_to_cluster(const std::string& directory, ClientSocket& socket, std::chrono::seconds patience) {
  auto address = cluster::ClusterAddress::of(directory);
  if (!address.ok()) return Error{ErrorCode::kUnavailable, "no cluster is running in " + directory};
  socket.value = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (patience == kNoPatience ? SOCK_NONBLOCK : 0), 0);
  const timeval longest{patience.count(), 0};  // of connect() and of each send(); 0: without end, or not at all
  if (socket.value >= 0) ::setsockopt(socket.value, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  if (socket.value >= 0 && ::connect(socket.value, address->generic(), sizeof address->address) == 0) return {};
  if (errno == EAGAIN) return Error{ErrorCode::kTimeout, no_answer(directory, "it may be busy or stopped").message};
  const bool absent = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR;
  return Error{ErrorCode::kUnavailable,
               absent ? "no cluster is running in " + directory + "; start one with: elastictrain cluster cluster.toml"
                      : "cannot reach the cluster in " + directory + ": " + std::strerror(errno)};
}

Error closed_by(const std::string& directory) {
  ClientSocket socket;
  const Status again = connect_to_cluster(directory, socket, kNoPatience);
  if (again.ok() || again.error().code == ErrorCode::kTimeout) {
    return no_answer(directory, "it closed the connection; you may not be allowed to use it (access)");
  }
  return {ErrorCode::kUnavailable,
          "the cluster in " + directory +
              " ended before it answered, and its runs train on; start it again with: "
              "elastictrain cluster cluster.toml. Then elastictrain queue shows what it knows"};
}

Result<std::string> talk_to(const std::string& directory, const MakeRequest& make_request) {
  ClientSocket socket;
  if (Status connected = connect_to_cluster(directory, socket, kClusterPatience); !connected.ok()) {
    return connected.error();
  }
  const auto peer = cluster::peer_of(socket.value);
  if (!peer) return no_answer(directory, "the system does not say whose it is");
  const std::string line = json_text(make_request(peer->uid == ::geteuid())) + "\n";
  const auto until = ClientClock::now() + kClusterPatience;
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(socket.value, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return no_answer(directory, std::strerror(errno));
    if (count < 0 || ClientClock::now() >= until) return no_answer(directory, "it may be busy or stopped");
    sent += static_cast<std::size_t>(count);
  }
  std::string answer;
  std::string block(64 * 1024, '\0');
  while (answer.empty() || answer.back() != '\n') {
    const auto left = std::chrono::ceil<Millis>(until - ClientClock::now()).count();
    pollfd waiting{socket.value, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return no_answer(directory, "it may be busy or stopped");
    const ssize_t count = ::recv(socket.value, block.data(), block.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return closed_by(directory);
    answer.append(block.data(), static_cast<std::size_t>(count));
    if (answer.size() > kMaxOfAnswer) return no_answer(directory, "the answer is too long");
  }
  answer.pop_back();
  return answer;
}

std::vector<std::string> running_clusters(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    ClientSocket socket;
    const Status connected = connect_to_cluster(entry.path(), socket, kNoPatience);
    const bool is_busy = !connected.ok() && connected.error().code == ErrorCode::kTimeout;
    if (connected.ok() || is_busy) names.push_back(entry.path().filename());
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
