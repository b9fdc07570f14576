// Services for programs besides training: their own data in a step, figures, and requests about the run.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "fake_run.h"
#include "tests/support/contains.h"
#include "train/comm/socket.h"
#include "train/peers/model_store.h"
#include "train/peers/store_server.h"
#include "train/session/monitors.h"
#include "train/state/sampler.h"

namespace elastictrain::test {
namespace {

constexpr std::chrono::seconds kPatience{10};

// The workers' updates depend on what they shared, so that the audit sees a difference.
TEST_CASE("a program's own data is shared in each step, also through a growth, a loss, and while models are averaged") {
  for (const bool averages : {false, true}) {
    for (const bool overlap : {false, true}) {
      CAPTURE(averages);
      CAPTURE(overlap);
      TestWorkerOptions options{.parameters = 300, .overlap = overlap, .shares_own_data = true};
      FakeRun run(options);
      if (averages) run.synchronize_by(protocol::Synchronization::kAveraging);
      auto workers = run.spawn_ready(2, options);
      options.dies = Moment{Moment::kBetweenBuckets, 8};
      workers.push_back(run.spawn_ready(1, options).front());
      run.change_to(workers);
      run.wait_exit(workers[2]);
      run.recover();
      run.change_to({workers[0], workers[1], run.spawn_ready()});
      run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
      run.synchronize_by(protocol::Synchronization::kGradients);
      run.change_to(run.members());
      run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
      const auto members = run.members();
      run.stop();
      for (const WorkerId worker : members) {
        run.wait_exit(worker);
        CHECK(run[worker].exit_code == kExitStopped);
      }
      run.check_audit();
    }
  }
}

TEST_CASE("gradient variance: over the all-reduces, the norm of avg(g^2) - avg(g)^2, of the last step measured") {
  const TestWorkerOptions options{.sample_count = 1000,
                                  .max_steps = 2,
                                  .parameters = 30,
                                  .overlap = false,
                                  .variance_every = 2,
                                  .note_gradient_of_step = "2"};
  FakeRun run(options);
  const auto workers = run.spawn_ready(3, options);
  run.change_to(workers);
  run.wait_all_exited();
  const state::Permutation order(1000, 5, 0);
  double expected = 0;
  for (const auto& [begin, end] : {std::pair{0, 10}, {10, 30}}) {
    double square_sum = 0;
    for (int parameter = begin; parameter < end; ++parameter) {
      double mean = 0;
      double mean_square = 0;
      for (std::uint64_t worker = 0; worker < 3; ++worker) {
        double gradient = 0;
        for (std::uint64_t i = 0; i < 8; ++i) {
          gradient += sample_gradient(order.at(24 + 8 * worker + i), static_cast<std::size_t>(parameter)) / 8;
        }
        mean += gradient / 3;
        mean_square += gradient * gradient / 3;
      }
      square_sum += (mean_square - mean * mean) * (mean_square - mean * mean);
    }
    expected += std::sqrt(square_sum);
  }
  const double measured = std::stod(run[workers[0]].notes["variance"]);
  CHECK(std::abs(measured - expected) <= 1e-4 * expected);
  CHECK(std::stod(run[workers[0]].notes["bytes"]) > 0);
}

TEST_CASE("a worker knows its traffic with each other one, where connections carry it") {
  for (const bool tcp : {true, false}) {
    CAPTURE(tcp);
    const TestWorkerOptions options{.max_steps = 20, .parameters = 30, .variance_every = 1};
    FakeRun run(options);
    if (tcp) run.set_environment("ELASTICTRAIN_HOST_KEY", "");  // then no two workers share a host
    const auto workers = run.spawn_ready(3, options);
    run.change_to(workers);
    run.wait_all_exited();
    std::istringstream note(run[workers[0]].notes["peers"]);
    double sent = 0;
    double received = 0;
    double own_sent = 0;
    double own_received = 0;
    double own_round_trip = 0;
    note >> sent >> received >> own_sent >> own_received >> own_round_trip;
    REQUIRE(note);
    CHECK(own_sent + own_received + own_round_trip == 0);
    for (int peer = 1; peer < 3; ++peer) {
      double to = 0;
      double from = 0;
      double round_trip_us = 0;
      note >> to >> from >> round_trip_us;
      REQUIRE(note);
      // The gradients of 20 steps, at least.
      CHECK((to >= 20 * 30 * sizeof(float)) == tcp);
      CHECK((from >= 20 * 30 * sizeof(float)) == tcp);
      CHECK((round_trip_us > 0) == tcp);
      sent -= to;
      received -= from;
    }
    CHECK(sent == 0);
    CHECK(received == 0);
  }
}

TEST_CASE("the noise scale of the published example, and none where it is not defined") {
  session::NoiseScale scale;
  CHECK_FALSE(scale.value());
  scale.add(32, 32, 2, 1.25);  // one worker
  CHECK_FALSE(scale.value());
  scale.add(32, 128, 2, 1.25);
  CHECK(scale.value().value() == doctest::Approx(32));
  scale.add(32, 128, 1.25, 1.25);  // no noise: 0.9 * 32 / (0.9 * 1 + 0.1 * 1.25)
  CHECK(scale.value().value() == doctest::Approx(0.9 * 32 / (0.9 + 0.125)));
}

// In every 16th step. The halves are noisier than the whole batch, so that there is a noise scale.
TEST_CASE("a worker that trains alone is asked for halves of its batch, and its heartbeats tell their norms") {
  TestWorkerOptions options{.max_steps = 40, .parameters = 30, .waits = Moment{Moment::kOutside, 20}};
  options.in_step = [](Session& session, std::uint64_t step) {
    if ((session.half_batch() != 0) != (step % 16 == 1)) throw std::logic_error("halves are not asked for in time");
    if (session.half_batch() != 0) session.report_halves(1e6, 2e6);
  };
  options.at_end = [](Session& session) { session.note("noise", std::to_string(session.monitors().noise_scale)); };
  FakeRun run(options);
  const auto workers = run.spawn_ready(1, options);
  run.change_to(workers);
  const WorkerId alone = workers.front();
  run.wait_step(alone, 20);
  CHECK(run[alone].norms.local_square == doctest::Approx(1.5e6));
  CHECK(run[alone].norms.local_inverse_batch == doctest::Approx(1.0 / 4));
  CHECK(run[alone].norms.global_inverse_batch == doctest::Approx(1.0 / 8));
  run.let_go();
  run.wait_all_exited();
  CHECK(run[alone].exit_code == kExitFinished);
  CHECK(std::stod(run[alone].notes["noise"]) != 0);
}

TEST_CASE("of several workers none is asked for halves") {
  TestWorkerOptions options{.max_steps = 40, .parameters = 30};
  options.in_step = [](Session& session, std::uint64_t) {
    if (session.half_batch() != 0) throw std::logic_error("the other worker shows the noise");
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers);
  run.wait_all_exited();
  for (const auto worker : workers) CHECK(run[worker].exit_code == kExitFinished);
}

TEST_CASE("each worker reads what another has saved, after a change and after a loss as well") {
  for (const bool tcp : {false, true}) {
    TestWorkerOptions options{.max_steps = 400, .parameters = 30, .step_time_us = 3000, .uses_store = true};
    FakeRun run(options);
    if (tcp) run.set_environment("ELASTICTRAIN_HOST_KEY", "");  // then no two workers share a host
    auto workers = run.spawn_ready(2, options);
    options.dies = Moment{Moment::kOutside, 300};  // on a slow machine it joins late, and must not miss this step
    const WorkerId third = run.spawn_ready(1, options).front();
    run.change_to(workers);
    workers.push_back(third);
    run.change_to(workers);
    run.wait_exit(third);
    run.recover();
    run.wait_all_exited();
    CHECK(run[workers[0]].exit_code == kExitFinished);
    CHECK(run[workers[1]].exit_code == kExitFinished);
    const std::string note = run[workers[0]].notes["store"];
    CHECK(std::stoi(note) >= 40);
    CHECK(note.substr(note.find(' ')) == " 1");  // two workers are left
    run.check_audit();
  }
}

TEST_CASE("a store keeps the newest versions, and refuses a peer without its token") {
  auto store = peers::ModelStore::open({.host_key = "here"});
  REQUIRE(store);
  const auto entry = (*store)->entry();
  const auto ask = [&](std::uint64_t version, std::size_t count = 1) {
    std::vector<std::uint64_t> into(count);
    const auto found = (*store)->request(entry, "n", version, std::as_writable_bytes(std::span(into)), kPatience);
    return found ? found->value_or(0) * 100 + into[0] : 9999;
  };
  CHECK(ask(0) == 0);
  for (std::uint64_t version : {1, 3, 2, 4}) (*store)->save("n", std::as_bytes(std::span(&version, 1)), version);
  CHECK(ask(0) == 404);
  CHECK(ask(2) == 202);
  CHECK(ask(1) == 0);  // three are kept
  CHECK(ask(4, 2) == 9999);
  auto wrong = entry;
  wrong[0] ^= std::byte{1};
  std::uint64_t into = 0;
  const auto refused = (*store)->request(wrong, "n", 4, std::as_writable_bytes(std::span(&into, 1)), kPatience);
  CHECK_FALSE(refused);
  CHECK(into == 0);
}

TEST_CASE("stores of different hosts protect what they send, and agree about how") {
  using protocol::Encryption;
  const std::vector<std::byte> data(1u << 20, std::byte{7});
  for (const auto level : {Encryption::kNone, Encryption::kIntegrity, Encryption::kFull}) {
    auto store = peers::ModelStore::open({.host_key = ""}, level);  // without a host key there is no Unix socket
    REQUIRE(store);
    (*store)->save("n", data, 3);
    std::vector<std::byte> into(data.size());
    const auto found = (*store)->request((*store)->entry(), "n", 0, into, kPatience);
    REQUIRE(found);
    CHECK(found->value_or(0) == 3);
    CHECK(into == data);
    auto other =
        peers::ModelStore::open({.host_key = ""}, level == Encryption::kFull ? Encryption::kNone : Encryption::kFull);
    const auto refused = (*other)->request((*store)->entry(), "n", 0, into, kPatience);
    REQUIRE_FALSE(refused);
    CHECK(contains(refused.error().message, "\"full\""));
    CHECK(contains(refused.error().message, '"' + std::string(protocol::name_of(level)) + '"'));
  }
}

// A connection to the store of this entry, by its Unix socket.
comm::Socket connection_to(std::span<const std::byte> entry) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(entry.data()) + sizeof(Token)));
  std::string name;
  for (int line = 0; line < 3; ++line) std::getline(lines, name);
  const auto address = comm::SocketAddress::abstract_unix(name);
  comm::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.fd(), address->get(), address->size()) == 0);
  return socket;
}

TEST_CASE("silent strangers and a reader that does not read delay no other reader of a store") {
  const std::vector<std::byte> data(64u << 20, std::byte{7});
  auto store = peers::ModelStore::open({.host_key = "here"});
  REQUIRE(store);
  (*store)->save("large", data, 1);
  (*store)->save("small", std::span(data).first(8), 1);
  const auto entry = (*store)->entry();
  Token token;
  std::memcpy(token.data(), entry.data(), token.size());

  const comm::Socket slow = connection_to(entry);
  const auto hello = comm::encode(peers::store_handshake(protocol::Encryption::kNone));
  const comm::CancelToken never;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  comm::ChallengeBytes answer;
  REQUIRE(comm::send_all(slow, hello, never, until));
  REQUIRE(comm::receive_all(slow, answer, never, until));
  const auto challenge = comm::decode_challenge(answer);
  REQUIRE(challenge);
  const auto proof = comm::prove(token, comm::Side::kConnector, hello, challenge->nonce, challenge->encryption);
  REQUIRE(comm::send_all(slow, proof, never, until));
  peers::Question question{1, 5, data.size()};
  REQUIRE(comm::send_all(slow, peers::bytes_of(question), never, until));
  REQUIRE(comm::send_all(slow, std::as_bytes(std::span("large", 5)), never, until));

  std::vector<comm::Socket> strangers;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10; ++i) strangers.push_back(connection_to(entry));
    std::vector<std::byte> into(8);
    const auto found = (*store)->request(entry, "small", 0, into, std::chrono::seconds(1));
    REQUIRE(found);
    CHECK(found->value_or(0) == 1);
    CHECK(into == std::vector<std::byte>(8, std::byte{7}));
  }
  // The store has accepted them all before the last request.
  const auto is_open = [](const comm::Socket& stranger) {
    std::byte nothing;
    return ::recv(stranger.fd(), &nothing, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  };
  CHECK(std::count_if(strangers.begin(), strangers.end(), is_open) <= 64);
}

TEST_CASE("who speaks as a reader but cannot prove the store's token gets nothing") {
  const std::vector<std::byte> data(8, std::byte{7});
  auto store = peers::ModelStore::open({.host_key = "here"});
  REQUIRE(store);
  (*store)->save("small", data, 1);
  const comm::Socket stranger = connection_to((*store)->entry());
  const auto hello = comm::encode(peers::store_handshake(protocol::Encryption::kNone));
  const comm::CancelToken never;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  comm::ChallengeBytes answer;
  REQUIRE(comm::send_all(stranger, hello, never, until));
  REQUIRE(comm::receive_all(stranger, answer, never, until));
  const auto challenge = comm::decode_challenge(answer);
  REQUIRE(challenge);
  const auto proof = comm::prove(Token{}, comm::Side::kConnector, hello, challenge->nonce, challenge->encryption);
  // The store may close the connection in between.
  peers::Question question{1, 5, data.size()};
  (void)comm::send_all(stranger, proof, never, until);
  (void)comm::send_all(stranger, peers::bytes_of(question), never, until);
  (void)comm::send_all(stranger, std::as_bytes(std::span("small", 5)), never, until);
  std::byte got;
  CHECK_FALSE(comm::receive_all(stranger, {&got, 1}, never, until));
}

TEST_CASE("another user of the machine is turned away by a store before a word") {
  if (::geteuid() != 0) return;  // only root can be another user
  constexpr uid_t kNobody = 65534;
  auto store = peers::ModelStore::open({.host_key = "here"});
  REQUIRE(store);
  const auto entry = (*store)->entry();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(2);
    const comm::Socket stranger = connection_to(entry);
    const auto hello = comm::encode(peers::store_handshake(protocol::Encryption::kNone));
    (void)::send(stranger.fd(), hello.data(), hello.size(), MSG_NOSIGNAL);
    comm::ChallengeBytes answer;
    ::_exit(::recv(stranger.fd(), answer.data(), answer.size(), 0) > 0 ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a request is sent once by the first rank, and again when it changes") {
  const TestWorkerOptions options{.max_steps = 30, .parameters = 30, .schedule = "2:10,3:10"};
  FakeRun run(options);
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers);
  run.wait_all_exited();
  REQUIRE(run[workers[0]].requests.size() == 2);
  CHECK(run[workers[0]].requests[0].workers == 2);
  CHECK(run[workers[0]].requests[1].workers == 3);
  CHECK(run[workers[1]].requests.empty());
}

}  // namespace
}  // namespace elastictrain::test
