// A worker's messages to its agent leave in order, whichever of its two threads sends them.
#include "train/session/agent_link.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::session {
namespace {

using namespace std::chrono_literals;

// An agent that only receives, from one worker.
class Ear {
 public:
  Ear() {
    REQUIRE(::mkdtemp(directory_) != nullptr);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 1) == 0);
  }
  ~Ear() {
    ::close(listener_);
    std::filesystem::remove_all(directory_);
  }
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;

  std::string path() const { return std::string(directory_) + "/agent.sock"; }

  // The steps of all WorkerFinished until the worker closes.
  std::vector<Step> steps() const {
    const int worker = ::accept(listener_, nullptr, nullptr);
    protocol::FrameReader reader(limits::kMaxWorkerFrameBytes);
    std::vector<Step> received;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(worker, bytes, sizeof bytes)) > 0;) {
      (void)reader.feed({bytes, static_cast<std::size_t>(got)});
      while (auto body = reader.next()) {
        const auto message = protocol::decode_body<protocol::WorkerToAgent>(*body);
        if (!message) continue;
        if (const auto* answer = std::get_if<protocol::WorkerFinished>(&*message))
          received.push_back(answer->last_step);
      }
    }
    ::close(worker);
    return received;
  }

 private:
  char directory_[32] = "/tmp/et-link-test-XXXXXX";
  const int listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST_CASE("what heartbeats and the training thread take from one place arrives in the order in which it was taken") {
  Ear ear;
  std::vector<Step> received;
  std::thread agent([&] { received = ear.steps(); });
  std::mutex mutex;
  Step taken = 0;
  const auto take = [&]() -> std::vector<protocol::WorkerToAgent> {
    const std::lock_guard lock(mutex);
    return {protocol::WorkerFinished{++taken}};
  };
  LinkHandlers handlers{.on_message = [](const protocol::WorkerDown&) {},
                        .on_heartbeat =
                            [&] {
                              auto messages = take();
                              std::this_thread::sleep_for(2ms);  // the other thread takes the next ones meanwhile
                              return messages;
                            },
                        .on_orphaned = [] {}};
  auto link = AgentLink::connect({.socket_path = ear.path(), .hello = {}, .heartbeat = 1ms}, std::move(handlers));
  REQUIRE(link.ok());
  (*link)->start();
  for (int i = 0; i < 50; ++i) {
    (*link)->send_in_turn(take);
    std::this_thread::sleep_for(1ms);
  }
  (*link)->close(10s);
  link->reset();
  agent.join();
  CHECK(received.size() > 50);
  CHECK(std::is_sorted(received.begin(), received.end()));
}

}  // namespace
}  // namespace elastictrain::session
