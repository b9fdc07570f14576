#include "fake_run.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/worker_messages.h"
#include "tests/quick_end.h"
#include "tests/slowdown.h"

namespace elastictrain::test {
namespace {

constexpr std::chrono::seconds kPatience{30 * testing::kSlowdown};

std::string socket_path(const std::string& directory) {
  return directory + "/agent.sock";
}

int listen_at(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(fd, 64) == 0);
  return fd;
}

}  // namespace

FakeRun::FakeRun(TestWorkerOptions options) : options_(std::move(options)) {
  char name[] = "/tmp/et-session-test-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  directory_ = name;
  listener_ = listen_at(socket_path(directory_));
}

FakeRun::~FakeRun() {
  if (launcher_ != 0) {
    ::kill(launcher_, SIGTERM);
    ::waitpid(launcher_, nullptr, 0);
  }
  for (auto& [id, worker] : workers_) {
    if (!worker.exit_code && worker.pid != 0) {
      ::kill(worker.pid, SIGKILL);
      ::waitpid(worker.pid, nullptr, 0);
    }
    if (worker.fd >= 0) ::close(worker.fd);
  }
  for (auto& [fd, reader] : strangers_) ::close(fd);
  stop_listening();
  std::filesystem::remove_all(directory_);
}

void FakeRun::stop_listening() {
  if (listener_ >= 0) ::close(listener_);
  listener_ = -1;
  ::unlink(socket_path(directory_).c_str());
}

WorkerId FakeRun::spawn(const TestWorkerOptions& options) {
  const WorkerId id{static_cast<std::uint32_t>(workers_.size() + 1)};
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) child(options, id);
  workers_[id].pid = pid;
  return id;
}

std::vector<WorkerId> FakeRun::spawn_pool(std::uint32_t ranks, const std::vector<std::string>& launch) {
  launcher_ = ::fork();
  REQUIRE(launcher_ >= 0);
  if (launcher_ == 0) {
    set_environment_of_child();
    std::vector<char*> argv;
    for (const auto& word : launch) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::vector<WorkerId> workers;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) workers.push_back(WorkerId{rank + 1});
  for (const WorkerId worker : workers) workers_[worker].is_of_pool = true;
  for (const WorkerId worker : workers) {
    wait_until([&] { return workers_.at(worker).ready.has_value(); }, to_string(worker) + " to be ready");
  }
  return workers;
}

int FakeRun::wait_launcher() {
  int status = 0;
  wait_until([&] { return ::waitpid(launcher_, &status, WNOHANG) == launcher_; }, "the launcher's end");
  launcher_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void FakeRun::child(const TestWorkerOptions& options, WorkerId worker) {
  set_environment_of_child();
  ::setenv("ELASTICTRAIN_WORKER_ID", std::to_string(worker.value).c_str(), 1);
  testing::end_quickly(run_test_worker(options));
}

void FakeRun::set_environment_of_child() const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Without an exec nothing closes the harness's descriptors, and sockets would stay open behind its back.
  ::close_range(3, ~0U, 0);
  ::signal(SIGTERM, SIG_DFL);  // nor takes the test framework's handler away
  ::setenv("ELASTICTRAIN_SOCKET", socket_path(directory_).c_str(), 1);
  ::setenv("ELASTICTRAIN_HOST_KEY", directory_.c_str(), 1);
  ::setenv("ELASTICTRAIN_HEARTBEAT_MS", "20", 1);
  ::setenv("ELASTICTRAIN_AUDIT_EVERY", "1", 1);
  ::setenv("TEST_WORKER_DIRECTORY", directory_.c_str(), 1);
  ::setenv("TEST_WORKER_GO", (directory_ + "/go").c_str(), 1);
  for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
}

WorkerId FakeRun::spawn_ready(const TestWorkerOptions& options) {
  return spawn_ready(1, options).front();
}

std::vector<WorkerId> FakeRun::spawn_ready(int count, const TestWorkerOptions& options) {
  std::vector<WorkerId> workers;
  for (int i = 0; i < count; ++i) workers.push_back(spawn(options));
  for (const WorkerId worker : workers) {
    wait_until([&] { return workers_.at(worker).ready.has_value(); }, to_string(worker) + " to be ready");
  }
  return workers;
}

void FakeRun::wait_until(const std::function<bool()>& condition, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    pump(20);
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("waited in vain for " + what);
  }
}

void FakeRun::pump(int timeout_ms) {
  listen_to_workers(timeout_ms);
  reap();
}

bool FakeRun::listen_to_workers(int timeout_ms) {
  std::vector<pollfd> waits;
  if (listener_ >= 0) waits.push_back({listener_, POLLIN, 0});
  for (const auto& [fd, reader] : strangers_) waits.push_back({fd, POLLIN, 0});
  for (const auto& [id, worker] : workers_) {
    if (worker.fd >= 0) waits.push_back({worker.fd, POLLIN, 0});
  }
  const bool any = ::poll(waits.data(), waits.size(), timeout_ms) > 0;
  for (const auto& wait : waits) {
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    if (wait.fd == listener_)
      accept_one();
    else
      read_from(wait.fd);
  }
  return any;
}

void FakeRun::accept_one() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) strangers_.emplace(fd, protocol::FrameReader(limits::kMaxWorkerFrameBytes));
}

void FakeRun::read_from(int fd) {
  const auto owner = std::find_if(workers_.begin(), workers_.end(), [&](auto& item) { return item.second.fd == fd; });
  protocol::FrameReader& reader = owner == workers_.end() ? strangers_.at(fd) : owner->second.reader;
  char bytes[65536];
  const auto got = ::recv(fd, bytes, sizeof bytes, 0);
  if (got <= 0) {
    ::close(fd);
    if (owner == workers_.end())
      strangers_.erase(fd);
    else
      owner->second.fd = -1;
    return;
  }
  REQUIRE(reader.feed({bytes, static_cast<std::size_t>(got)}).ok());
  WorkerRecord* speaker = owner == workers_.end() ? nullptr : &owner->second;
  protocol::FrameReader* source = &reader;
  while (auto body = source->next()) {
    auto message = protocol::decode_body<protocol::WorkerToAgent>(*body);
    REQUIRE(message.ok());
    if (std::holds_alternative<protocol::WorkerAsksEpoch>(*message)) {
      REQUIRE(speaker != nullptr);
      if (run_epoch_) send_to(*speaker, protocol::RunEpoch{*run_epoch_});
    } else if (const auto* hello = std::get_if<protocol::WorkerHello>(&*message)) {
      speaker = &workers_.at(hello->worker);
      ++speaker->hellos;
      if (speaker->is_of_pool) speaker->pid = static_cast<pid_t>(hello->pid);
      CHECK(hello->pid == speaker->pid);
      if (owner != workers_.end()) continue;  // a parked one that was reassigned
      speaker->fd = fd;
      speaker->reader = std::move(reader);
      source = &speaker->reader;
      strangers_.erase(fd);
    } else {
      REQUIRE(speaker != nullptr);
      CHECK_FALSE(speaker->parked.has_value());
      record(*speaker, std::move(*message));
    }
  }
}

void FakeRun::record(WorkerRecord& worker, protocol::WorkerToAgent message) {
  if (auto* ready = std::get_if<protocol::WorkerReady>(&message))
    worker.ready = *ready;
  else if (auto* prepared = std::get_if<protocol::WorkerPrepared>(&message))
    worker.prepared.insert(prepared->generation);
  else if (auto* failed = std::get_if<protocol::WorkerPrepareFailed>(&message)) {
    worker.prepare_failed[failed->generation] = failed->reason;
  } else if (auto* active = std::get_if<protocol::WorkerActive>(&message))
    worker.active[active->generation] = *active;
  else if (auto* left = std::get_if<protocol::WorkerLeft>(&message))
    worker.left = *left;
  else if (auto* parked = std::get_if<protocol::WorkerParked>(&message))
    worker.parked = *parked;
  else if (auto* finished = std::get_if<protocol::WorkerFinished>(&message))
    worker.finished = *finished;
  else if (auto* heartbeat = std::get_if<protocol::WorkerHeartbeat>(&message)) {
    const auto& before = worker.heartbeat;
    worker.still = before.step == heartbeat->step && before.place == heartbeat->place ? worker.still + 1 : 0;
    worker.heartbeat = *heartbeat;
    if (heartbeat->norm_steps != 0) worker.norms = *heartbeat;
  } else if (auto* note = std::get_if<protocol::WorkerNote>(&message))
    worker.notes[note->key] = note->value;
  else if (auto* request = std::get_if<protocol::WorkerRequest>(&message))
    worker.requests.push_back(*request);
  else if (auto* swap = std::get_if<protocol::WorkerSwap>(&message))
    worker.swaps[swap->generation] = *swap;
  else if (auto* audit = std::get_if<protocol::WorkerAudit>(&message)) {
    auto& own = audit->from_checkpoint ? worker.notified_of_state : worker.audit;
    auto& steps = audit->of.value == 0 ? own : worker.notified_for[audit->of];
    steps.insert(steps.end(), audit->steps.begin(), audit->steps.end());
  } else if (auto* halted = std::get_if<protocol::WorkerHalted>(&message)) {
    worker.halts.push_back(*halted);
  } else if (auto* declines = std::get_if<protocol::WorkerDeclines>(&message)) {
    worker.declines = declines->reason;
  } else if (auto* put = std::get_if<protocol::BoardPut>(&message)) {
    hear_for_board(worker, *put);
  } else if (auto* get = std::get_if<protocol::BoardGet>(&message)) {
    hear_for_board(worker, *get);
  }
}

void FakeRun::hear_for_board(const WorkerRecord& worker, const protocol::BoardPut& put) {
  if (!answers_board_) return;
  board_[put.key] = put.value;
  send_to(worker, protocol::BoardAnswer{.number = put.number});
  answer_questions();
}

void FakeRun::hear_for_board(const WorkerRecord& worker, const protocol::BoardGet& get) {
  if (!answers_board_) return;
  if (get.wait_ms == 0 && !board_.contains(get.key))
    return send_to(worker, protocol::BoardAnswer{.number = get.number});
  board_questions_.emplace_back(&worker, get);
  answer_questions();
}

void FakeRun::answer_questions() {
  std::erase_if(board_questions_, [this](const auto& question) {
    const auto value = board_.find(question.second.key);
    if (value == board_.end()) return false;
    send_to(*question.first,
            protocol::BoardAnswer{.number = question.second.number, .found = true, .value = value->second});
    return true;
  });
}

void FakeRun::reap() {
  for (auto& [id, worker] : workers_) {
    int status = 0;
    // Not our child process: its launcher reports its end.
    const bool is_gone = worker.is_of_pool && worker.pid != 0 && ::kill(worker.pid, 0) != 0;
    if (is_gone && worker.fd < 0 && !worker.exit_code) worker.exit_code = kExitOfPool;
    if (worker.is_of_pool) continue;
    if (worker.exit_code || worker.fd >= 0 || ::waitpid(worker.pid, &status, WNOHANG) != worker.pid) continue;
    // It may have connected, spoken and ended since the last look.
    while (listen_to_workers(0)) {
    }
    worker.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

void FakeRun::send(WorkerId worker, const protocol::WorkerDown& message) {
  send_to(workers_.at(worker), message);
}

void FakeRun::send_to(const WorkerRecord& worker, const protocol::WorkerDown& message) {
  const std::string frame = protocol::encode_frame(message);
  if (worker.fd < 0) return;
  [[maybe_unused]] const auto sent = ::send(worker.fd, frame.data(), frame.size(), MSG_NOSIGNAL);
}

void FakeRun::dismiss(WorkerId worker) {
  send(worker, protocol::Dismiss{"not needed"});
}

void FakeRun::wait_parked(WorkerId worker) {
  wait_until([&] { return workers_.at(worker).parked.has_value(); }, to_string(worker) + " to park");
}

WorkerId FakeRun::reassign(WorkerId parked) {
  wait_parked(parked);
  const WorkerId id{static_cast<std::uint32_t>(workers_.size() + 1)};
  auto& before = workers_.at(parked);
  auto& next = workers_[id];
  send(parked, protocol::Reassigned{id});
  next.pid = before.pid;
  next.is_of_pool = before.is_of_pool;
  next.fd = std::exchange(before.fd, -1);
  next.reader = std::move(before.reader);
  before.exit_code = kExitLeft;
  wait_until([&] { return next.ready.has_value(); }, to_string(id) + " to be ready");
  return id;
}

void FakeRun::wait_exit(WorkerId worker) {
  wait_until([&] { return workers_.at(worker).exit_code.has_value(); }, to_string(worker) + " to exit");
}

void FakeRun::wait_all_exited() {
  for (const auto& [id, worker] : workers_) wait_exit(id);
}

void FakeRun::wait_step(WorkerId worker, Step step) {
  wait_until([&] { return workers_.at(worker).heartbeat.step >= step; },
             to_string(worker) + " to commit step " + std::to_string(step));
}

void FakeRun::close_socket(WorkerId worker) {
  auto& record = workers_.at(worker);
  ::shutdown(record.fd, SHUT_RDWR);
  ::close(record.fd);
  record.fd = -1;
}

void FakeRun::let_go() {
  std::ofstream(directory_ + "/go") << "go\n";
}

void FakeRun::kill(WorkerId worker) {
  ::kill(workers_.at(worker).pid, SIGKILL);
  wait_exit(worker);
}

std::vector<WorkerId> FakeRun::living() const {
  std::vector<WorkerId> living;
  for (const WorkerId member : members_) {
    if (!workers_.at(member).exit_code) living.push_back(member);
  }
  return living;
}

void FakeRun::tell_orphaned(WorkerId worker) {
  send(worker, protocol::Orphaned{"the test says so"});
}

void FakeRun::tell_disagreed(WorkerId worker, const std::string& reason) {
  send(worker, protocol::Disagreed{workers_.at(worker).active.rbegin()->first, reason});
}

}  // namespace elastictrain::test
