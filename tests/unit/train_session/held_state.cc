#include "held_state.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>

#include "train/comm/handshake.h"
#include "train/state/progress.h"

namespace elastictrain::test {
namespace {

struct Address {
  explicit Address(const std::string& abstract_name) {
    address.sun_family = AF_UNIX;
    std::copy(abstract_name.begin(), abstract_name.end(), address.sun_path + 1);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + abstract_name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

int unix_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  REQUIRE(fd >= 0);
  return fd;
}

// Returns what there is, at most one piece.
std::vector<char> read_some(int fd) {
  std::vector<char> bytes(1U << 16);
  const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

std::size_t write_some(int fd, std::span<const char> bytes) {
  const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
}

}  // namespace

HeldState::HeldState() : listener_(unix_socket()), name_("et-held-state-" + std::to_string(::getpid())) {
  const Address own(name_);
  REQUIRE(::bind(listener_, own.get(), own.size) == 0);
  REQUIRE(::listen(listener_, 16) == 0);
}

HeldState::~HeldState() {
  ::close(listener_);
  for (const auto& way : ways_) {
    ::close(way.donor);
    ::close(way.joiner);
  }
}

void HeldState::stand_before(protocol::Endpoint& joiner) {
  joiner_name_ = std::exchange(joiner.unix_name, name_);
}

bool HeldState::pump() {
  accept_donors();
  for (auto& way : ways_) move(way);
  return true;
}

void HeldState::accept_donors() {
  while (true) {
    const int donor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (donor < 0) return;
    const int joiner = unix_socket();
    const Address address(joiner_name_);
    REQUIRE(::connect(joiner, address.get(), address.size) == 0);
    ways_.push_back({.donor = donor, .joiner = joiner});
  }
}

void HeldState::cut_off() {
  for (auto& way : ways_) {
    way.is_cut = true;
    ::shutdown(way.joiner, SHUT_RDWR);
  }
}

void HeldState::move(Way& way) {
  if (way.is_cut) return;
  for (auto bytes = read_some(way.donor); !bytes.empty(); bytes = read_some(way.donor)) {
    way.from_donor.insert(way.from_donor.end(), bytes.begin(), bytes.end());
  }
  const auto ready = std::span<const char>(way.from_donor).first(may_pass(way));
  way.passed += write_some(way.joiner, ready.subspan(way.passed));
  if (const auto answer = read_some(way.joiner); !answer.empty()) write_some(way.donor, answer);
}

// All but what follows the header.
std::size_t HeldState::may_pass(const Way& way) const {
  const std::size_t header = comm::kHandshakeBytes + sizeof(comm::Mac);  // the donor's hello and its proof
  const std::size_t known = header + state::kHeaderPrefixBytes;
  if (!holds_ || way.from_donor.size() < known) return way.from_donor.size();
  const auto prefix = std::as_bytes(std::span<const char>(way.from_donor)).subspan(header, state::kHeaderPrefixBytes);
  const auto length = state::header_length(prefix);
  REQUIRE(length.ok());
  return std::min(way.from_donor.size(), header + *length);
}

bool HeldState::holds_something() const {
  const auto waits = [](const Way& way) { return way.passed < way.from_donor.size(); };
  return !ways_.empty() && std::all_of(ways_.begin(), ways_.end(), waits);
}

HeldGrowth::HeldGrowth(const TestWorkerOptions& options) : run(options), workers(run.spawn_ready(2)) {
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  workers.push_back(run.spawn_ready());
  plan = run.plan(workers);
  state.stand_before(plan.members[2].endpoint);
  run.prepare(plan);
  for (const WorkerId worker : workers) {
    until([&] { return run[worker].prepared.contains(plan.generation); }, "the members to be prepared");
  }
  run.commit(plan);
  until([&] { return run[workers[2]].heartbeat.place != protocol::StepPlace::kStarting; }, "the joiner's first step");
}

void HeldGrowth::until(const std::function<bool()>& condition, const std::string& what) {
  run.wait_until([&] { return state.pump() && condition(); }, what);
}

void HeldGrowth::let_go() {
  state.let_go();
  until([&] { return run[workers[2]].heartbeat.step > first_step(); }, "the joiner's second step");
  run.wait_swapped(plan);
}

void HeldGrowth::train_on_and_stop() {
  const WorkerId first = run.members().front();
  run.wait_step(first, run[first].heartbeat.step + 10);
  run.stop_and_check();
}

}  // namespace elastictrain::test
