#include "tests/standin/standin_nccl.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "tests/standin/standin_nccl_net.h"
#include "tests/standin/standin_nccl_ras.h"

namespace standin {
namespace {

enum Code { kSuccess, kCudaError, kSystemError, kInternalError, kInvalidArgument, kInvalidUsage, kRemote, kInProgress };

constexpr std::size_t kIdBytes = 128;
struct UniqueId {
  char internal[kIdBytes];
};

// Two ranks have one connection for data and one on which they meet to connect an algorithm.
enum Purpose : std::uint32_t { kData, kMeeting };
constexpr Purpose kPurposes[] = {kData, kMeeting};

// The messages from a rank to the root, from the root to all ranks, and between two ranks.
struct Greeting {
  std::uint32_t rank;
  std::uint32_t ranks;
  std::uint32_t port;
  std::uint32_t purpose;
};

// The part of ncclConfig_t that counts here.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

bool is_blocking(const void* config) {
  return config == nullptr || static_cast<const Config*>(config)->blocking != 0;
}

// NCCL reads it once in a process. Not 0: an algorithm is connected by its first collective.
bool connects_late() {
  static const bool late = [] {
    const char* wanted = std::getenv("NCCL_RUNTIME_CONNECT");
    return wanted == nullptr || std::atoi(wanted) != 0;
  }();
  return late;
}

enum Algorithm { kTree, kRing, kAlgorithms };
constexpr std::size_t kLargestOfTree = 16384;  // floats

constexpr std::chrono::milliseconds kLateLaunch{100};
// What a rank says at its end, behind all meetings.
constexpr char kRevoked = 'r';
constexpr char kFreed = 'f';
constexpr std::array<char, 1> kKernels{};  // stands for the code of all of them

struct Faults {
  std::mutex mutex;
  std::string list;
};

Faults& faults() {
  static auto* all = new Faults;
  return *all;
}

struct Counters {
  std::atomic<int> begun{0}, aborted{0}, finalized{0}, destroyed{0}, alive{0}, intruders{0}, roots{0}, scalable{0};
  std::atomic<int> shrunk{0}, revoked{0}, misused{0}, unpolled{0}, leaked{0}, met{0}, summed{0};
};
Counters counters;

std::string fault_list() {
  {
    const std::lock_guard lock(faults().mutex);
    if (!faults().list.empty()) return faults().list;
  }
  if (const char* path = std::getenv("ET_STANDIN_NCCL_CONTROL")) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const char* fixed = std::getenv("ET_STANDIN_NCCL_FAULTS");
  return fixed != nullptr ? fixed : "";
}

bool has_fault(const std::string& name, int rank) {
  std::istringstream list(fault_list());
  const std::string for_rank = name + "@" + std::to_string(rank);
  for (std::string entry; std::getline(list, entry, ',');) {
    while (!entry.empty() && entry.back() == '\n') entry.pop_back();
    if (entry == name || entry == for_rank) return true;
  }
  return false;
}

void close_all(std::vector<int>& sockets) {
  for (int& socket : sockets) {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
}

// The root of a unique id: collects the ranks and sends each the addresses of the others. It cannot be stopped, like
// NCCL's own.
void serve_as_root(int listener) {
  const std::atomic<bool> never{false};
  std::vector<int> connections;
  std::vector<Greeting> greetings;
  while (greetings.empty() || greetings.size() < greetings.front().ranks) {
    int connection = -1;
    Greeting greeting{};
    if (!accept_until(listener, connection, never)) break;
    connections.push_back(connection);
    if (move_all({{connection, reinterpret_cast<char*>(&greeting), sizeof greeting, false}}, never) == MoveEnd::kDone) {
      greetings.push_back(greeting);
    } else {
      break;
    }
  }
  for (const int connection : connections) {
    move_all({{connection, reinterpret_cast<char*>(greetings.data()), greetings.size() * sizeof(Greeting), true}},
             never);
  }
  close_all(connections);
  ::close(listener);
}

// One operation of a group, or one alone.
struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
  int peer = -1;
  bool outgoing = false;
};

// What a communicator holds from its first moment.
class Resources {
 public:
  Resources() {
    for (int& descriptor : descriptors_) descriptor = ::eventfd(0, EFD_CLOEXEC);
    for (void*& stream : streams_) cuStreamCreate(&stream, 1);
    cuMemHostAlloc(&flags_, 4096, 0);
  }
  ~Resources() {
    if (abandoned_) return;
    for (const int descriptor : descriptors_) ::close(descriptor);
    for (void* stream : streams_) cuStreamDestroy_v2(stream);
    cuMemFreeHost(flags_);
  }
  void abandon() { abandoned_ = true; }

 private:
  std::array<int, 4> descriptors_{};
  std::array<void*, 2> streams_{};
  void* flags_ = nullptr;
  bool abandoned_ = false;
};

}  // namespace

class Comm {
 public:
  Comm(int rank, int ranks, const UniqueId& id, bool blocking) : Comm(rank, ranks, blocking) {
    std::memcpy(&port_, id.internal, sizeof port_);
    ras_ = std::make_unique<RasEntry>(port_, rank, ranks);
    ++counters.begun;
    begin_job([this] { return init(); });
  }
  // Waits for all work of the device, whoever has given it. A build that is ended before its ranks have met frees
  // nothing.
  ~Comm() {
    stop_ = stop_operations_ = true;
    join();
    close_all(sockets_);
    close_all(meetings_);
    if (listener_ >= 0) ::close(listener_);
    standin_cuda_enter(device_);
    if (gathered_) {
      standin_cuda_await_device(device_);
    } else {
      resources_.abandon();
      ++counters.leaked;
    }
    standin_cuda_leave();
    --counters.alive;
  }

  int state() const {
    if (const int error = stuck_) return error;
    const int own = state_;
    return own == kSuccess && has_fault("async-error", rank_) ? kRemote : own;
  }
  // What a call that begins a job returns.
  int begun() {
    if (blocking_) join();
    return state();
  }
  // As ncclCommEnsureReady: a call before the end of the last one is refused, and the error stays.
  int ensure_ready() {
    const int now = state();
    if (now != kInProgress) return now;
    ++counters.unpolled;
    stuck_ = kInvalidArgument;
    return kInvalidArgument;
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Ends all operations and waits for it. What is freed then may be what a kernel of another rank still reads.
  void stop(bool frees) {
    stop_ = stop_operations_ = true;
    join();
    if (frees) tell_all(kFreed);
    for (const auto* sockets : {&sockets_, &meetings_}) {
      for (const int socket : *sockets) {
        if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
      }
    }
    await_operations();
  }

  // Both continue in a thread, as in NCCL, and are polled by state().
  int shrink(std::vector<int> left_out, Comm** made) {
    if (const int now = ensure_ready()) return now;
    if (shrunk_.exchange(true)) return misuse();
    begin_job([this, left_out = std::move(left_out), made] {
      std::unique_ptr<Comm> smaller = without(left_out);
      while (!stop_ && has_fault("stall-shrink", rank_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!smaller || stop_ || has_fault("fail-shrink", rank_)) return kSystemError;
      ++counters.shrunk;
      *made = smaller.release();
      return kSuccess;
    });
    return begun();
  }
  // From a settled state only: one of NCCL's own threads may still launch otherwise.
  int revoke() {
    if (revoked_.exchange(true) || state_ == kInProgress) return misuse();
    const int before = state_;
    begin_job([this, before] {
      while (!stop_ && has_fault("wedge-abort", rank_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stop_operations_ = true;
      tell_all(kRevoked);
      const auto waits = [this] {
        return has_fault("stall-revoke", rank_) || (has_fault("joint-revoke", rank_) && !all_have_ended());
      };
      while (running_ > 0 || (!stop_ && waits())) std::this_thread::yield();
      ++counters.revoked;
      return static_cast<Code>(before);
    });
    return begun();
  }
  int finalize() {
    if (revoked_ || shrunk_) return misuse();
    if (const int now = ensure_ready()) return now;
    begin_job([this] {
      await_operations();
      return kSuccess;
    });
    return begun();
  }

  struct Work {
    Comm* comm;
    std::vector<Piece> pieces;  // of a transfer
    float* sum = nullptr;       // of an all-reduce
    std::size_t count = 0;
    bool never_called = false;  // decided once, so that what is reported and what is done agree
  };

  // A thread connects what the work needs and gives the work to the stream; the call returns before that.
  int enqueue(Work work, void* stream) {
    if (revoked_) return kInvalidUsage;
    if (const int now = ensure_ready()) return now;
    work.never_called = has_fault("never-called", rank_);
    if (work.sum != nullptr && !work.never_called) ras_->started_all_reduce();
    begin_job([this, work = std::move(work), stream]() mutable { return launch(std::move(work), stream); });
    return begun();
  }

  // Set while a thread is inside a call on this communicator.
  std::atomic<int> inside{0};

 private:
  Comm(int rank, int ranks, bool blocking)
      : rank_(rank),
        ranks_(ranks),
        blocking_(blocking),
        device_(standin_cuda_current_device()),
        sockets_(ranks, -1),
        meetings_(ranks, -1),
        ports_(ranks, 0),
        knows_(ranks, false) {
    ++counters.alive;
  }

  static int misuse() {
    ++counters.misused;
    return kInvalidUsage;
  }

  void begin_job(std::function<Code()> job) {
    join();
    state_ = kInProgress;
    const std::lock_guard lock(joining_);
    job_ = std::thread([this, job = std::move(job)] {
      standin_cuda_enter(device_);
      state_ = job();
    });
  }
  void join() {
    const std::lock_guard lock(joining_);
    if (job_.joinable()) job_.join();
  }
  void await_operations() {
    while (running_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  Code init() {
    standin_cuda_load(&kKernels);
    while (!stop_ && has_fault("sync-init", rank_) && !standin_cuda_idle()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool connected = !has_fault("fail-init", rank_) && connect();
    while (!stop_ && has_fault("stall-init", rank_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return connected && !stop_ ? kSuccess : kSystemError;
  }

  bool connect() {
    gathered_ = ranks_ == 1;
    if (gathered_) return true;
    std::uint16_t own_port = 0;
    listener_ = listen_on_loopback(own_port);
    std::vector<std::uint16_t> at(static_cast<std::size_t>(ranks_));
    if (!meet(own_port, at) || !join_mesh(at, listener_, own_port, stop_)) return false;
    gathered_ = true;
    connected_.fill(!connects_late());
    return true;
  }

  bool join_mesh(const std::vector<std::uint16_t>& at, int listener, std::uint16_t own_port,
                 const std::atomic<bool>& stop) {
    return connect_to_lower(at, own_port, stop) && accept_higher(listener, own_port, stop);
  }

  Code launch(Work work, void* stream) {
    if (const MoveEnd met = connect_for(work); met != MoveEnd::kDone) {
      if (met == MoveEnd::kLost && !has_fault("silent-loss", rank_)) return kRemote;
      while (!stop_operations_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return kSystemError;
    }
    if (has_fault("launch-late", rank_)) std::this_thread::sleep_for(kLateLaunch);
    ++running_;
    const auto run = [](void* argument) {
      auto* todo = static_cast<Work*>(argument);
      Comm& comm = *todo->comm;
      comm.run(*todo);
      --comm.running_;
      delete todo;
    };
    return standin_cuda_enqueue(stream, run, new Work(std::move(work))) == 0 ? kSuccess : kCudaError;
  }

  // Meets the ranks of an algorithm, or the peers of transfers, that are not connected yet.
  MoveEnd connect_for(const Work& work) {
    std::vector<bool> with(knows_.size(), false);
    if (work.sum != nullptr) {
      const Algorithm algorithm = work.count > kLargestOfTree ? kRing : kTree;
      const bool late = has_fault("connect-late", rank_);
      if (!std::exchange(connected_[algorithm], true) || (late && !std::exchange(met_[algorithm], true))) {
        with.assign(with.size(), true);
      }
      with[static_cast<std::size_t>(rank_)] = false;
    }
    for (const auto& piece : work.pieces) {
      const auto peer = static_cast<std::size_t>(piece.peer);
      with[peer] = !knows_[peer];
    }
    for (std::size_t peer = 0; peer < with.size(); ++peer) knows_[peer] = knows_[peer] || (!work.sum && with[peer]);
    return meet_with(with);
  }

  MoveEnd meet_with(const std::vector<bool>& with) {
    std::vector<Move> moves;
    std::vector<char> here(with.size(), 'm');
    std::vector<char> there(with.size());
    for (std::size_t peer = 0; peer < with.size(); ++peer) {
      if (!with[peer]) continue;
      moves.push_back({meetings_[peer], &here[peer], 1, true});
      moves.push_back({meetings_[peer], &there[peer], 1, false});
    }
    if (moves.empty()) return MoveEnd::kDone;
    ++counters.met;
    return move_all(std::move(moves), stop_operations_);
  }

  // The communicator of the remaining ranks, over the addresses of this one; nothing if one of them is gone.
  std::unique_ptr<Comm> without(const std::vector<int>& left_out) {
    std::vector<std::uint16_t> at;
    int rank = 0;
    for (int old = 0; old < ranks_; ++old) {
      if (std::find(left_out.begin(), left_out.end(), old) != left_out.end()) continue;
      if (old == rank_) rank = static_cast<int>(at.size());
      at.push_back(ports_[static_cast<std::size_t>(old)]);
    }
    std::unique_ptr<Comm> smaller(new Comm(rank, static_cast<int>(at.size()), blocking_));
    smaller->ras_ = std::make_unique<RasEntry>(ras_->hash() + kChild, smaller->rank(), smaller->ranks());
    std::uint16_t own_port = 0;
    smaller->listener_ = listen_on_loopback(own_port);
    const bool connected = smaller->join_mesh(at, listener_, own_port, stop_);
    smaller->gathered_ = true;
    smaller->connected_.fill(!connects_late());
    smaller->state_ = kSuccess;
    return connected ? std::move(smaller) : nullptr;
  }

  bool meet(std::uint16_t own_port, std::vector<std::uint16_t>& at) {
    const int root = connect_to_loopback(port_);
    if (root < 0) return false;
    Greeting mine{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(ranks_), own_port, kData};
    std::vector<Greeting> all(static_cast<std::size_t>(ranks_));
    const bool reported = move_all({{root, reinterpret_cast<char*>(&mine), sizeof mine, true},
                                    {root, reinterpret_cast<char*>(all.data()), all.size() * sizeof(Greeting), false}},
                                   stop_) == MoveEnd::kDone;
    ::close(root);
    for (const auto& peer : all) {
      if (reported) at[peer.rank] = static_cast<std::uint16_t>(peer.port);
    }
    return reported;
  }

  // Each sends the other its identity and its new listening address.
  bool greet(int connection, std::uint16_t own_port, Purpose purpose, const std::atomic<bool>& stop) {
    Greeting mine{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(ranks_), own_port, purpose};
    Greeting theirs{};
    const bool greeted = move_all({{connection, reinterpret_cast<char*>(&mine), sizeof mine, true},
                                   {connection, reinterpret_cast<char*>(&theirs), sizeof theirs, false}},
                                  stop) == MoveEnd::kDone;
    if (!greeted) {
      ::close(connection);
      return false;
    }
    const bool was_called = theirs.rank > static_cast<std::uint32_t>(rank_);
    ((was_called ? theirs.purpose : purpose) == kData ? sockets_ : meetings_)[theirs.rank] = connection;
    ports_[theirs.rank] = static_cast<std::uint16_t>(theirs.port);
    return true;
  }

  bool connect_to_lower(const std::vector<std::uint16_t>& at, std::uint16_t own_port, const std::atomic<bool>& stop) {
    ports_[static_cast<std::size_t>(rank_)] = own_port;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(rank_); ++peer) {
      for (const Purpose purpose : kPurposes) {
        const int connection = connect_to_loopback(at[peer]);
        if (connection < 0 || !greet(connection, own_port, purpose, stop)) return false;
      }
    }
    return true;
  }

  bool accept_higher(int listener, std::uint16_t own_port, const std::atomic<bool>& stop) {
    for (auto missing = std::size(kPurposes) * static_cast<std::size_t>(ranks_ - 1 - rank_); missing > 0; --missing) {
      int connection = -1;
      if (!accept_until(listener, connection, stop) || !greet(connection, own_port, kData, stop)) return false;
    }
    return true;
  }

  void run(Work& work) {
    while (!stop_operations_ &&
           (has_fault("stall-run", rank_) || (work.never_called && has_fault("never-called", rank_)))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto begin = std::chrono::steady_clock::now();
    const MoveEnd end = work.sum != nullptr ? all_reduce(work.sum, work.count) : transfer(work.pieces);
    if (work.sum != nullptr) standin_cuda_take_time("ET_STANDIN_SUM_US", begin);
    if (work.sum != nullptr && end == MoveEnd::kDone) ++counters.summed;
    if (end != MoveEnd::kLost) return;
    if (!stop_operations_ && has_fault("mapped-memory", rank_) && a_peer_has_freed()) standin_cuda_fault(700);
    if (!has_fault("silent-loss", rank_)) state_ = kRemote;
    // The kernel of a lost communicator spins until it is aborted.
    while (!stop_operations_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void tell_all(char end) const {
    for (const int socket : meetings_) {
      if (socket >= 0) (void)::send(socket, &end, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  // What a peer has said that was not read; nothing if it is gone.
  static std::optional<std::string> unread(int socket) {
    std::array<char, 16> bytes{};
    const auto count = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return std::nullopt;
    return std::string(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  bool a_peer_has_freed() const {
    return std::any_of(meetings_.begin(), meetings_.end(), [](int socket) {
      return socket >= 0 && unread(socket).value_or("").find(kFreed) != std::string::npos;
    });
  }
  bool all_have_ended() const {
    return std::all_of(meetings_.begin(), meetings_.end(), [](int socket) {
      const auto said = socket >= 0 ? unread(socket) : std::nullopt;
      return !said || said->find_first_of(std::string{kRevoked, kFreed}) != std::string::npos;
    });
  }

  MoveEnd transfer(const std::vector<Piece>& pieces) {
    std::vector<Move> moves;
    for (const auto& piece : pieces) {
      const auto* bytes = static_cast<const char*>(piece.outgoing ? piece.from : piece.to);
      moves.push_back(
          {sockets_[static_cast<std::size_t>(piece.peer)], const_cast<char*>(bytes), piece.bytes, piece.outgoing});
    }
    return move_all(std::move(moves), stop_operations_);
  }

  // Rank 0 adds in the order of the ranks and sends all ranks the same bits.
  MoveEnd all_reduce(float* data, std::size_t count) {
    auto* bytes = reinterpret_cast<char*>(data);
    const std::size_t size = count * sizeof(float);
    if (rank_ != 0) {
      const auto given = move_all({{sockets_[0], bytes, size, true}}, stop_operations_);
      return given != MoveEnd::kDone ? given : move_all({{sockets_[0], bytes, size, false}}, stop_operations_);
    }
    std::vector<Move> back;
    std::vector<float> theirs(count);
    for (int rank = 1; rank < ranks_; ++rank) {
      const auto got =
          move_all({{sockets_[rank], reinterpret_cast<char*>(theirs.data()), size, false}}, stop_operations_);
      if (got != MoveEnd::kDone) return got;
      for (std::size_t i = 0; i < count; ++i) data[i] += theirs[i];
      back.push_back({sockets_[rank], bytes, size, true});
    }
    return move_all(std::move(back), stop_operations_);
  }

  const int rank_;
  const int ranks_;
  const bool blocking_;
  const int device_;
  Resources resources_;
  std::uint16_t port_ = 0;
  int listener_ = -1;  // where the remaining ranks find each other in a Shrink
  std::vector<int> sockets_;
  std::vector<int> meetings_;
  std::vector<std::uint16_t> ports_;
  std::vector<bool> knows_;  // peers of transfers
  std::array<bool, kAlgorithms> connected_{};
  std::array<bool, kAlgorithms> met_{};
  bool gathered_ = false;
  static constexpr std::uint64_t kChild = 1 << 16;  // beyond all ports
  std::unique_ptr<RasEntry> ras_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stop_operations_{false};
  std::atomic<int> state_{kInProgress};
  std::atomic<int> stuck_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> shrunk_{false};
  std::atomic<bool> revoked_{false};
  std::mutex joining_;
  std::thread job_;
};

namespace {

// Counts the threads inside a communicator at the same time; NCCL allows one.
class Inside {
 public:
  explicit Inside(Comm& comm) : comm_(comm) {
    if (comm_.inside++ > 0) ++counters.intruders;
  }
  ~Inside() { --comm_.inside; }

 private:
  Comm& comm_;
};

struct Group {
  int depth = 0;
  int error = kSuccess;
  Comm* comm = nullptr;
  void* stream = nullptr;
  std::vector<Piece> pieces;
};
thread_local Group group;

int add_piece(Comm& comm, Piece piece, void* stream) {
  if (piece.peer < 0 || piece.peer >= comm.ranks() || piece.peer == comm.rank()) return kInvalidArgument;
  if (group.depth == 0) return comm.enqueue({&comm, {piece}, nullptr, 0}, stream);
  if (const int now = comm.ensure_ready()) return group.error = now;
  group.comm = &comm;
  group.stream = stream;
  group.pieces.push_back(piece);
  return kSuccess;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API void standin_nccl_faults(const char* list) {
  const std::lock_guard lock(faults().mutex);
  faults().list = list;
}

STANDIN_API void standin_nccl_counters(StandinNcclCounters* all) {
  *all = {counters.alive,     counters.begun,    counters.aborted,  counters.finalized, counters.destroyed,
          counters.intruders, counters.roots,    counters.scalable, counters.shrunk,    counters.revoked,
          counters.misused,   counters.unpolled, counters.leaked,   counters.met,       counters.summed};
}

STANDIN_API int ncclGetVersion(int* version) {
  const char* wanted = std::getenv("ET_STANDIN_NCCL_VERSION");
  *version = wanted != nullptr ? std::atoi(wanted) : 22809;
  return kSuccess;
}

STANDIN_API int ncclGetUniqueId(UniqueId* id) {
  std::uint16_t port = 0;
  const int listener = listen_on_loopback(port);
  if (listener < 0) return kSystemError;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &port, sizeof port);
  ++counters.roots;
  std::thread(serve_as_root, listener).detach();
  return kSuccess;
}

STANDIN_API int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, void* config) {
  *comm = new Comm(rank, ranks, id, is_blocking(config));
  return (*comm)->begun();
}

STANDIN_API int ncclCommInitRankScalable(Comm** comm, int ranks, int rank, int, UniqueId* ids, void* config) {
  ++counters.scalable;
  *comm = new Comm(rank, ranks, ids[0], is_blocking(config));
  return (*comm)->begun();
}

STANDIN_API int ncclCommGetAsyncError(Comm* comm, int* error) {
  const Inside inside(*comm);
  *error = comm->state();
  return kSuccess;
}

STANDIN_API int ncclCommAbort(Comm* comm) {
  {
    const Inside inside(*comm);
    while (has_fault("wedge-abort", comm->rank())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm->stop(true);
    while (has_fault("join-abort", comm->rank())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (has_fault("sticky-abort", comm->rank())) standin_cuda_fault(700);
  }
  delete comm;
  ++counters.aborted;
  return kSuccess;
}

STANDIN_API int ncclCommFinalize(Comm* comm) {
  const Inside inside(*comm);
  ++counters.finalized;
  return comm->finalize();
}

STANDIN_API int ncclCommDestroy(Comm* comm) {
  if (const int now = comm->ensure_ready()) return now;
  comm->stop(false);
  delete comm;
  ++counters.destroyed;
  return kSuccess;
}

#ifndef ET_STANDIN_NCCL_BEFORE_SHRINK
// The parent's error is returned with any flags (section 2 of the notes on NCCL 2.28.9, trap 1).
STANDIN_API int ncclCommShrink(Comm* comm, int* left_out, int count, Comm** made, void*, int) {
  const Inside inside(*comm);
  return comm->shrink({left_out, left_out + count}, made);
}

STANDIN_API int ncclCommRevoke(Comm* comm, int) {
  const Inside inside(*comm);
  return comm->revoke();
}
#endif

STANDIN_API int ncclAllReduce(const void* from, void* to, std::size_t count, int, int, Comm* comm, void* stream) {
  const Inside inside(*comm);
  if (from != to) return kInvalidArgument;
  return comm->enqueue({comm, {}, static_cast<float*>(to), count}, stream);
}

STANDIN_API int ncclSend(const void* from, std::size_t bytes, int, int peer, Comm* comm, void* stream) {
  const Inside inside(*comm);
  return add_piece(*comm, {from, nullptr, bytes, peer, true}, stream);
}

STANDIN_API int ncclRecv(void* to, std::size_t bytes, int, int peer, Comm* comm, void* stream) {
  const Inside inside(*comm);
  return add_piece(*comm, {nullptr, to, bytes, peer, false}, stream);
}

STANDIN_API int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

STANDIN_API int ncclGroupEnd() {
  if (--group.depth > 0) return kSuccess;
  if (const int error = std::exchange(group.error, kSuccess)) {
    group.pieces.clear();
    group.comm = nullptr;
    return error;
  }
  if (group.comm == nullptr) return kSuccess;
  Comm& comm = *std::exchange(group.comm, nullptr);
  return comm.enqueue({&comm, std::exchange(group.pieces, {}), nullptr, 0}, group.stream);
}

STANDIN_API const char* ncclGetErrorString(int code) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return code >= 0 && code <= kInProgress ? kTexts[code] : "unknown";
}

STANDIN_API const char* ncclGetLastError(Comm*) {
  return "the stand-in has nothing to add";
}
