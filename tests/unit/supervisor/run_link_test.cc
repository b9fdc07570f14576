// A run's connection to its cluster, against a scripted socket that also goes away, stalls and talks nonsense.
#include "supervisor/cluster/run_link.h"
#include "supervisor/transport/local_socket.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <poll.h>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace elastictrain;
using namespace elastictrain::cluster;

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGenerous{20'000};

// One end of the socket, without a thread: a test alternates between it and the loop.
class Peer {
 public:
  explicit Peer(const std::string& path) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ::unlink(path.c_str());
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
  }
  ~Peer() {
    hang_up();
    ::close(listener_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    input_.clear();
  }
  void say(const std::string& bytes) { REQUIRE(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0); }
  void say(const FromCluster& message) { say(to_line(message) + "\n"); }

  // Takes what is there; without blocking.
  void look() {
    if (socket_ < 0) socket_ = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket_ < 0) return;
    std::array<char, 65536> chunk{};
    for (ssize_t count = 0; (count = ::recv(socket_, chunk.data(), chunk.size(), 0)) > 0;) {
      input_.append(chunk.data(), static_cast<std::size_t>(count));
    }
    for (std::size_t end = 0; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
      auto message = from_run(input_.substr(0, end));
      REQUIRE_MESSAGE(message.ok(), (message.ok() ? "" : message.error().message));
      heard.push_back(std::move(*message));
    }
  }

  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const FromRun& message : heard) {
      if (const auto* content = std::get_if<Message>(&message)) found.push_back(*content);
    }
    return found;
  }

  std::vector<FromRun> heard;

 private:
  int listener_ = -1;
  int socket_ = -1;
  std::string input_;
};

class Scene {
 public:
  Scene() {
    directory = std::filesystem::temp_directory_path() / ("et-link-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory);
    settings.socket = directory / "cluster.sock";
    settings.cluster = "lab";
    settings.timeout = milliseconds(2'000);
    settings.retry = settings.retry_max = milliseconds(10);
    join = {.run = "r", .directory = "/r", .pid = 1, .min = 1, .max = 4, .start = 1};
  }
  ~Scene() { std::filesystem::remove_all(directory); }

  RunLink& link() {
    if (!link_) {
      link_.emplace(
          io, settings, [this] { return join; }, [this](bool, const std::string& text) { said.push_back(text); });
    }
    return *link_;
  }
  RunLink::Handlers handlers() {
    return {[this](const Lease& lease) { leases.push_back(lease); },
            [this](const QueuePlace& place) { places.push_back(place); },
            [this](const End& end) { ends.push_back(end); }};
  }
  template <class Condition>
  void until(Peer* peer, Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!condition()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      if (peer != nullptr) peer->look();
      if (io.stopped()) io.restart();
      io.run_one_for(milliseconds(2));
    }
  }
  void joined(Peer& peer, std::size_t times = 1) {
    until(&peer, [&] { return peer.all<Join>().size() == times; });
    peer.say(Joined{"j7"});
    until(&peer, [&] { return link().connected(); });
  }
  bool says(const std::string& part) const {
    for (const std::string& text : said) {
      if (text.find(part) != std::string::npos) return true;
    }
    return false;
  }

  std::filesystem::path directory;
  asio::io_context io;
  RunLinkSettings settings;
  Join join;
  std::vector<std::string> said;
  std::vector<Lease> leases;
  std::vector<QueuePlace> places;
  std::vector<End> ends;

 private:
  std::optional<RunLink> link_;
};

Lease lease_of(std::uint64_t version) {
  return {.version = version, .slots = {{"h1", {0, 1}, 4}}, .hold = false, .reason = "share"};
}

}  // namespace

TEST_CASE("a cluster that is not there is an error that says how to start it") {
  Scene scene;
  const Status joined = scene.link().join_now();
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().message.find("cannot join cluster lab") != std::string::npos);
  CHECK(joined.error().message.find("elastictrain cluster cluster.toml") != std::string::npos);
}

TEST_CASE("a cluster that does not answer is an error after the time-out") {
  Scene scene;
  scene.settings.timeout = milliseconds(50);
  const Peer peer(scene.settings.socket);
  const Status joined = scene.link().join_now();
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().message.find("it does not answer") != std::string::npos);
}

TEST_CASE("a cluster that is stopped, and whose queue of connections is full, holds up nobody") {
  Scene scene;
  const Peer peer(scene.settings.socket);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  scene.settings.socket.copy(address.sun_path, sizeof address.sun_path - 1);
  std::vector<int> waiting;
  do {
    waiting.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  } while (::connect(waiting.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const Status joined = scene.link().join_now();
  REQUIRE_FALSE(joined.ok());
  CHECK(joined.error().message.find("stopped or too busy") != std::string::npos);
  for (const int socket : waiting) ::close(socket);
}

TEST_CASE("a run that has joined a cluster follows no socket of another user in its place") {
  Scene scene;
  std::uint32_t user = 1001;
  scene.settings.peer_of = [&user](int) { return std::optional(transport::Peer{user, 1}); };
  auto peer = std::make_unique<Peer>(scene.settings.socket);
  scene.link().start();
  scene.joined(*peer);
  scene.link().follow(scene.handlers());
  user = 1002;
  peer = std::make_unique<Peer>(scene.settings.socket);
  scene.until(peer.get(), [&] { return scene.says("is that of user 1002 now"); });
  CHECK(peer->heard.empty());
  CHECK_FALSE(scene.link().connected());
  user = 1001;
  peer = std::make_unique<Peer>(scene.settings.socket);
  scene.joined(*peer);
  peer->say(lease_of(4));
  scene.until(peer.get(), [&] { return scene.leases.size() == 1; });
}

TEST_CASE("a run knows the batch system's job of every host that it was leased, the newest one") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  peer.say(Lease{.version = 1, .slots = {{"h1", {0}, 1, "77"}, {"h2", {0}, 1}}, .reason = ""});
  peer.say(Lease{.version = 2, .slots = {{"h3", {0}, 1, "78"}}, .reason = ""});
  scene.until(&peer, [&] { return scene.link().job_of("h3") == "78"; });
  CHECK(scene.link().job_of("h1") == "77");  // its agent may have to be started again
  CHECK(scene.link().job_of("h2").empty());
  CHECK(scene.link().job_of("h9").empty());
  peer.say(Lease{.version = 3, .slots = {{"h1", {0}, 1, "79"}}, .reason = ""});
  scene.until(&peer, [&] { return scene.link().job_of("h1") == "79"; });
}

TEST_CASE("a run joins, and hears of leases, its place in the queue and its end") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  CHECK(peer.all<Join>()[0] == scene.join);
  CHECK(scene.link().job() == "j7");
  // What was said before somebody follows is not lost.
  peer.say(QueuePlace{2, 3, "earlier jobs"});
  scene.until(&peer, [&] { return scene.link().queue().has_value(); });
  scene.link().follow(scene.handlers());
  scene.until(&peer, [&] { return scene.places.size() == 1; });
  peer.say(lease_of(4));
  scene.until(&peer, [&] { return scene.leases.size() == 1; });
  CHECK(scene.leases[0] == lease_of(4));
  CHECK_FALSE(scene.link().queue().has_value());
  peer.say(End{"cancelled"});
  scene.until(&peer, [&] { return scene.ends.size() == 1; });
  // The next supervisor hears it again.
  scene.link().unfollow();
  scene.link().follow(scene.handlers());
  scene.until(&peer, [&] { return scene.ends.size() == 2; });
}

TEST_CASE("an older lease and what makes no sense are named and change nothing") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  scene.link().follow(scene.handlers());
  peer.say(lease_of(4));
  peer.say(lease_of(3));
  peer.say("garbage\n");
  peer.say(lease_of(5));
  scene.until(&peer, [&] { return scene.leases.size() == 2; });
  CHECK(scene.leases[1].version == 5);
  CHECK(scene.says("older than 4"));
  CHECK(scene.says("makes no sense"));
}

TEST_CASE("it connects again for as long as it lives, and says then what it is") {
  Scene scene;
  auto peer = std::make_unique<Peer>(scene.settings.socket);
  scene.link().start();
  scene.joined(*peer);
  peer.reset();
  scene.until(nullptr, [&] { return !scene.link().connected(); });
  CHECK(scene.says("trains on with the slots that it has"));
  scene.join.lease = 4;
  scene.join.holds = {{"h1", {0}}};
  Peer again(scene.settings.socket);
  scene.joined(again);
  CHECK(again.all<Join>()[0] == scene.join);
  CHECK(scene.says("connected to cluster lab again"));
  // A line without an end costs the connection only.
  const std::string chunk(1 << 16, 'x');
  const auto refuses = [&] { return !scene.link().connected(); };
  for (int i = 0; i < 16; ++i) {
    again.say(chunk);
    for (int turn = 0; turn < 8 && !refuses(); ++turn) scene.io.run_one_for(milliseconds(2));
  }
  scene.until(nullptr, refuses);
  again.hang_up();
  scene.joined(again, 2);
}

TEST_CASE("a run that is refused later trains on and asks again") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  peer.hang_up();
  scene.until(&peer, [&] { return peer.all<Join>().size() == 2; });
  peer.say(Refused{"no such job"});
  scene.until(nullptr, [&] { return scene.says("no such job"); });
  peer.hang_up();
  scene.joined(peer, 3);
}

TEST_CASE("a cluster that does not read gets the newest report when it does") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  Report report;
  for (int host = 0; host < 1000; ++host) report.holds.push_back({"host-" + std::to_string(host), {0, 1, 2, 3}});
  for (std::uint64_t step = 1; step <= 100; ++step) {
    report.step = step;
    scene.link().report(report);
    scene.io.run_one_for(milliseconds(1));
  }
  scene.until(&peer, [&] {
    const auto reports = peer.all<Report>();
    return !reports.empty() && reports.back().step == 100;
  });
  CHECK(peer.all<Report>().size() < 100);
}

TEST_CASE("the last line is the run's status") {
  Scene scene;
  Peer peer(scene.settings.socket);
  scene.link().start();
  scene.joined(peer);
  scene.link().close(75);
  scene.until(&peer, [&] { return !peer.all<Ended>().empty(); });
  CHECK(peer.all<Ended>()[0].status == 75);
}
