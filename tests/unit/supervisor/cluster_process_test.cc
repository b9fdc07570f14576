// The edge of a cluster: what leaves the process, and in which order.
#include "supervisor/cluster/cluster_process.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/transport/local_socket.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cluster {
namespace {

using namespace std::chrono_literals;
using test::contains;

class OneHost : public launcher::HostSource {
 public:
  explicit OneHost(asio::io_context& io) : io_(io) {}
  void poll(std::function<void(Result<std::vector<launcher::Host>>)> done) override {
    asio::post(io_, [done = std::move(done)] { done(std::vector<launcher::Host>{{"h1", 2}}); });
  }
  std::uint64_t interval_ms() const override { return 0; }

 private:
  asio::io_context& io_;
};

// A cluster process in a directory that outlives it.
class Process {
 public:
  explicit Process(const std::string& directory, bool breaks = false) : directory_(directory) {
    ClusterOptions options;
    options.name = "test";
    options.directory = directory;
    options.settings.policy = "max-min";
    options.say = [this](const std::string& text) { said.push_back(text); };
    options.probe = [](const cluster_core::Job& job) {
      return cluster_core::Probed{job.id, cluster_core::Probed::State::kUnknown, 0};
    };
    options.begun = [this](const cluster_core::Cluster&) { begun = true; };
    options.broken = [this](const std::string& rule) { broken = rule; };
    if (breaks) {
      options.find_broken = [](const cluster_core::Cluster& cluster) {
        return cluster.jobs().empty() ? std::nullopt : std::optional<std::string>("there is a job");
      };
    }
    process = std::make_unique<ClusterProcess>(io, std::move(options),
                                               [this](GrowthInputs) { return std::make_unique<OneHost>(io); });
    REQUIRE(process->open().ok());
    REQUIRE(run([this] { return begun; }));
  }

  // False: it has not become so.
  bool run(const std::function<bool()>& until) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!until() && std::chrono::steady_clock::now() < deadline) io.run_one_until(deadline);
    return until();
  }

  asio::io_context io;
  std::vector<std::string> said;
  bool begun = false;
  std::optional<std::string> broken;
  std::unique_ptr<ClusterProcess> process;

 private:
  std::string directory_;
};

class Client {
 public:
  explicit Client(const std::string& directory) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = transport::LocalAddress::of(socket_of_cluster(directory));
    REQUIRE(address.ok());
    REQUIRE(::connect(socket_, address->generic(), address->length()) == 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(const std::string& line) const {
    const std::string whole = line + "\n";
    REQUIRE(::send(socket_, whole.data(), whole.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(whole.size()));
  }
  // All that has arrived.
  const std::string& heard() {
    char block[4096];
    for (ssize_t count; (count = ::recv(socket_, block, sizeof block, MSG_DONTWAIT)) > 0;) {
      heard_.append(block, static_cast<std::size_t>(count));
    }
    return heard_;
  }

 private:
  int socket_;
  std::string heard_;
};

std::string join_of(const std::string& name) {
  return to_line(FromRun(Join{.run = name, .directory = "/runs/" + name, .pid = 1}));
}

struct Place : test::TemporaryDirectory {
  std::string cluster() const { return path + "/cluster"; }
  std::string journal() const { return test::read_file(cluster() + "/journal.jsonl"); }
};

TEST_CASE_FIXTURE(Place,
                  "of a step that breaks a rule nothing is written and nothing is said, and the next process goes on") {
  {
    Process process(cluster(), true);
    Client client(cluster());
    client.say(join_of("a"));
    REQUIRE(process.run([&] { return process.broken.has_value(); }));
    CHECK(*process.broken == "there is a job");
    CHECK(process.said.back() == "internal error: there is a job");
    client.say(R"({"command":"queue"})");
    process.io.run_for(300ms);  // longer than a decision takes
    CHECK(client.heard().empty());
    CHECK_FALSE(contains(journal(), "submitted"));
  }
  Process process(cluster());
  Client client(cluster());
  client.say(join_of("a"));
  CHECK(process.run([&] { return contains(client.heard(), "\"lease\""); }));
  CHECK(contains(journal(), "submitted"));
  CHECK_FALSE(process.broken);
}

}  // namespace
}  // namespace elastictrain::cluster
