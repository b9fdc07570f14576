#include "tests/standin/standin_nccl.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
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

// The messages from a rank to the root, from the root to all ranks, and between two ranks.
struct Greeting {
  std::uint32_t rank;
  std::uint32_t ranks;
  std::uint32_t port;
};

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
  std::atomic<int> shrunk{0}, revoked{0}, misused{0};
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

}  // namespace

class Comm {
 public:
  Comm(int rank, int ranks, const UniqueId& id) : Comm(rank, ranks) {
    std::memcpy(&port_, id.internal, sizeof port_);
    ras_ = std::make_unique<RasEntry>(port_, rank, ranks);
    ++counters.begun;
    job_ = std::thread([this] { init(); });
  }
  ~Comm() {
    stop_ = stop_operations_ = true;
    if (job_.joinable()) job_.join();
    close_all(sockets_);
    if (listener_ >= 0) ::close(listener_);
    --counters.alive;
  }

  int state() const { return has_fault("async-error", rank_) ? kRemote : state_.load(); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Ends all operations and waits for it.
  void stop() {
    stop_ = stop_operations_ = true;
    if (job_.joinable()) job_.join();
    for (const int socket : sockets_) {
      if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
    }
    while (running_ > 0) std::this_thread::yield();
  }

  // Both continue in a thread, as in NCCL, and are polled by state().
  int shrink(std::vector<int> left_out, Comm** made) {
    if (state() != kSuccess) return state();
    if (shrunk_.exchange(true)) return misuse();
    return begin_job([this, left_out = std::move(left_out), made] {
      std::unique_ptr<Comm> smaller = without(left_out);
      while (!stop_ && has_fault("stall-shrink", rank_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!smaller || stop_ || has_fault("fail-shrink", rank_)) return kSystemError;
      ++counters.shrunk;
      *made = smaller.release();
      return kSuccess;
    });
  }
  int revoke() {
    if (revoked_.exchange(true)) return misuse();
    const int before = state_;
    return begin_job([this, before] {
      stop_operations_ = true;
      while (running_ > 0 || (!stop_ && has_fault("stall-revoke", rank_))) std::this_thread::yield();
      ++counters.revoked;
      return static_cast<Code>(before);
    });
  }
  int finalize() const { return revoked_ || shrunk_ ? misuse() : state(); }

  struct Work {
    Comm* comm;
    std::vector<Piece> pieces;  // of a transfer
    float* sum = nullptr;       // of an all-reduce
    std::size_t count = 0;
  };

  int enqueue(Work work, void* stream) {
    if (revoked_) return kInvalidUsage;
    if (state() != kSuccess) return state() == kInProgress ? kInvalidUsage : state();
    if (work.sum != nullptr && !has_fault("never-called", rank_)) ras_->started_all_reduce();
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

  // Set while a thread is inside a call on this communicator.
  std::atomic<int> inside{0};

 private:
  Comm(int rank, int ranks) : rank_(rank), ranks_(ranks), sockets_(ranks, -1), ports_(ranks, 0) { ++counters.alive; }

  static int misuse() {
    ++counters.misused;
    return kInvalidUsage;
  }

  int begin_job(std::function<Code()> job) {
    if (job_.joinable()) job_.join();
    state_ = kInProgress;
    job_ = std::thread([this, job = std::move(job)] { state_ = job(); });
    return kInProgress;
  }

  void init() {
    while (!stop_ && has_fault("sync-init", rank_) && !standin_cuda_idle()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool connected = !has_fault("fail-init", rank_) && connect();
    while (!stop_ && has_fault("stall-init", rank_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state_ = connected && !stop_ ? kSuccess : kSystemError;
  }

  bool connect() {
    if (ranks_ == 1) return true;
    std::uint16_t own_port = 0;
    listener_ = listen_on_loopback(own_port);
    std::vector<std::uint16_t> at(static_cast<std::size_t>(ranks_));
    return meet(own_port, at) && connect_to_lower(at, own_port, stop_) && accept_higher(listener_, own_port, stop_);
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
    std::unique_ptr<Comm> smaller(new Comm(rank, static_cast<int>(at.size())));
    smaller->ras_ = std::make_unique<RasEntry>(ras_->hash() + kChild, smaller->rank(), smaller->ranks());
    std::uint16_t own_port = 0;
    smaller->listener_ = listen_on_loopback(own_port);
    const bool connected =
        smaller->connect_to_lower(at, own_port, stop_) && smaller->accept_higher(listener_, own_port, stop_);
    smaller->state_ = kSuccess;
    return connected ? std::move(smaller) : nullptr;
  }

  bool meet(std::uint16_t own_port, std::vector<std::uint16_t>& at) {
    const int root = connect_to_loopback(port_);
    if (root < 0) return false;
    Greeting mine{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(ranks_), own_port};
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
  bool greet(int connection, std::uint16_t own_port, const std::atomic<bool>& stop) {
    Greeting mine{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(ranks_), own_port};
    Greeting theirs{};
    const bool greeted = move_all({{connection, reinterpret_cast<char*>(&mine), sizeof mine, true},
                                   {connection, reinterpret_cast<char*>(&theirs), sizeof theirs, false}},
                                  stop) == MoveEnd::kDone;
    if (!greeted) {
      ::close(connection);
      return false;
    }
    sockets_[theirs.rank] = connection;
    ports_[theirs.rank] = static_cast<std::uint16_t>(theirs.port);
    return true;
  }

  bool connect_to_lower(const std::vector<std::uint16_t>& at, std::uint16_t own_port, const std::atomic<bool>& stop) {
    ports_[static_cast<std::size_t>(rank_)] = own_port;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(rank_); ++peer) {
      const int connection = connect_to_loopback(at[peer]);
      if (connection < 0 || !greet(connection, own_port, stop)) return false;
    }
    return true;
  }

  bool accept_higher(int listener, std::uint16_t own_port, const std::atomic<bool>& stop) {
    for (int missing = ranks_ - 1 - rank_; missing > 0; --missing) {
      int connection = -1;
      if (!accept_until(listener, connection, stop) || !greet(connection, own_port, stop)) return false;
    }
    return true;
  }

  void run(Work& work) {
    while (!stop_operations_ && (has_fault("stall-run", rank_) || has_fault("never-called", rank_))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const MoveEnd end = work.sum != nullptr ? all_reduce(work.sum, work.count) : transfer(work.pieces);
    if (end != MoveEnd::kLost) return;
    if (!has_fault("silent-loss", rank_)) state_ = kRemote;
    // The kernel of a lost communicator spins until it is aborted.
    while (!stop_operations_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
  std::uint16_t port_ = 0;
  int listener_ = -1;  // where the remaining ranks find each other in a Shrink
  std::vector<int> sockets_;
  std::vector<std::uint16_t> ports_;
  static constexpr std::uint64_t kChild = 1 << 16;  // beyond all ports
  std::unique_ptr<RasEntry> ras_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stop_operations_{false};
  std::atomic<int> state_{kInProgress};
  std::atomic<int> running_{0};
  std::atomic<bool> shrunk_{false};
  std::atomic<bool> revoked_{false};
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
  Comm* comm = nullptr;
  void* stream = nullptr;
  std::vector<Piece> pieces;
};
thread_local Group group;

int add_piece(Comm& comm, Piece piece, void* stream) {
  if (piece.peer < 0 || piece.peer >= comm.ranks() || piece.peer == comm.rank()) return kInvalidArgument;
  if (group.depth == 0) return comm.enqueue({&comm, {piece}, nullptr, 0}, stream);
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
  *all = {counters.alive,     counters.begun,     counters.aborted, counters.finalized,
          counters.destroyed, counters.intruders, counters.roots,   counters.scalable,
          counters.shrunk,    counters.revoked,   counters.misused};
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

STANDIN_API int ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, void*) {
  *comm = new Comm(rank, ranks, id);
  return kInProgress;
}

STANDIN_API int ncclCommInitRankScalable(Comm** comm, int ranks, int rank, int, UniqueId* ids, void*) {
  ++counters.scalable;
  *comm = new Comm(rank, ranks, ids[0]);
  return kInProgress;
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
    comm->stop();
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
  comm->stop();
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
  if (--group.depth > 0 || group.comm == nullptr) return kSuccess;
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
