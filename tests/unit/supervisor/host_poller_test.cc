// The list of hosts of a command that takes long, or for ever.
#include "supervisor/host_poller.h"

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <utility>
#include <vector>

using namespace elastictrain;

namespace {

using Hosts = std::vector<launcher::Host>;

struct SilentSource final : launcher::HostSource {
  void poll(std::function<void(Result<Hosts>)> answer) override { done = std::move(answer); }
  std::uint64_t interval_ms() const override { return interval; }

  std::uint64_t interval = 60'000;
  std::function<void(Result<Hosts>)> done;
};

struct Scene {
  void run_until_offered(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (offered.size() < count && std::chrono::steady_clock::now() < deadline)
      io.run_one_for(std::chrono::seconds(1));
  }

  asio::io_context io;
  SilentSource source;
  std::vector<Hosts> offered;
  HostPoller poller{io, source, [this](const Hosts& hosts) { offered.push_back(hosts); }, [](const std::string&) {}};
};

}  // namespace

TEST_CASE("a run whose hosts are not known yet begins without any, and hears of them later") {
  Scene scene;
  scene.poller.start(HostPoller::Begin::kAnew);
  CHECK(scene.offered.empty());
  scene.run_until_offered(1);
  REQUIRE(scene.offered.size() == 1);
  CHECK(scene.offered[0].empty());
  scene.source.done(Hosts{{"a", 2}});
  REQUIRE(scene.offered.size() == 2);
  CHECK(scene.offered[1] == Hosts{{"a", 2}});
  scene.poller.stop();
}

TEST_CASE("an answer in time is the first that a run hears") {
  Scene scene;
  scene.poller.start(HostPoller::Begin::kAnew);
  scene.source.done(Hosts{{"a", 2}});
  scene.io.run_one_for(std::chrono::seconds(2));
  CHECK(scene.offered == std::vector<Hosts>{{{"a", 2}}});
  scene.poller.stop();
}

TEST_CASE("a run that is taken over keeps its hosts until the first answer") {
  Scene scene;
  scene.source.interval = 1;
  scene.poller.start(HostPoller::Begin::kTakeOver);
  const auto first = std::exchange(scene.source.done, nullptr);
  first(Error{ErrorCode::kTimeout, "no answer"});
  const auto asked_again = [&] { return static_cast<bool>(scene.source.done); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!asked_again() && std::chrono::steady_clock::now() < deadline) scene.io.run_one_for(std::chrono::seconds(1));
  REQUIRE(asked_again());
  CHECK(scene.offered.empty());
  scene.source.done(Hosts{{"a", 2}});
  CHECK(scene.offered == std::vector<Hosts>{{{"a", 2}}});
  scene.poller.stop();
}
