#include "tests/standin/standin_nccl_ras.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

namespace standin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnfinished = ".new";

struct Rank {
  int pid;
  int rank;
  std::uint64_t all_reduces;

  std::string place() const { return "GPU 0 managed by process " + std::to_string(pid) + " on node 127.0.0.1\n"; }
};
struct Communicator {
  int ranks = 0;
  std::vector<Rank> heard;
  std::vector<Rank> silent;
};

bool is_stopped(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(") ");
  return end != std::string::npos && line[end + 2] == 'T';
}

std::map<std::uint64_t, Communicator> gather(const std::string& directory) {
  std::map<std::uint64_t, Communicator> all;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == kUnfinished) continue;
    std::uint64_t hash = 0;
    Rank rank{};
    int ranks = 0;
    std::ifstream file(entry.path());
    if (!(file >> hash >> ranks >> rank.rank >> rank.pid >> rank.all_reduces)) continue;
    all[hash].ranks = ranks;
    (is_stopped(rank.pid) ? all[hash].silent : all[hash].heard).push_back(rank);
  }
  return all;
}

std::string named(const char* format, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
  char text[256];
  std::snprintf(text, sizeof text, format, a, b, c);
  return text;
}

std::string table_of(const std::map<std::uint64_t, Communicator>& all) {
  std::string text =
      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n";
  std::size_t group = 0;
  for (const auto& [hash, comm] : all) {
    char row[256];
    std::snprintf(row, sizeof row, "%5zu  %8d  %8d  %8zu  %8d  %8zu  %8s  %6s\n", group++, 1, 1, comm.heard.size(),
                  comm.ranks, comm.heard.size(), "RUNNING", comm.silent.empty() ? "OK" : "INCOMPLETE");
    text += row;
  }
  return text;
}

std::string missing(const std::map<std::uint64_t, Communicator>& all) {
  std::string text;
  std::size_t group = 0;
  for (const auto& [hash, comm] : all) {
    const std::size_t number = group++;
    if (comm.silent.empty()) continue;
    text += "#" + std::to_string(number) +
            named("-0 (%016lx) INCOMPLETE\n  Missing communicator data from %lu rank%.0lu\n", hash, comm.silent.size());
    for (const Rank& rank : comm.silent) text += "  Rank " + std::to_string(rank.rank) + " -- " + rank.place();
    text += "\n";
  }
  return text;
}

std::string behind(const std::map<std::uint64_t, Communicator>& all) {
  std::string text;
  std::size_t group = 0;
  for (const auto& [hash, comm] : all) {
    const std::size_t number = group++;
    std::map<std::uint64_t, std::vector<Rank>> by_count;
    for (const Rank& rank : comm.heard) by_count[rank.all_reduces].push_back(rank);
    if (by_count.size() < 2) continue;
    text += "#" + std::to_string(number) + named("-0 (%016lx) MISMATCH\n%.0lu", hash, 0) +
            "  Communicator ranks have different AllReduce operation counts\n";
    for (const auto& [count, ranks] : by_count) {
      if (ranks.size() > 1) text += named("  %lu ranks have launched up to operation %lu\n", ranks.size(), count);
      if (ranks.size() > 1) continue;
      text +=
          named("  Rank %lu has launched up to operation %lu -- ", static_cast<std::uint64_t>(ranks[0].rank), count);
      text += ranks[0].place();
    }
    text += "\n";
  }
  return text;
}

std::string report(const std::string& directory) {
  const auto all = gather(directory);
  return "NCCL version 2.28.9+cuda13.0 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\n"
         "Job summary\n===========\n\n"
         "  Nodes  Processes         GPUs  Processes     GPUs\n"
         "(total)   per node  per process    (total)  (total)\n"
         "      1          1            1          1        1\n"
         "\nCommunicators... (0.00s)\n=============\n\n" +
         table_of(all) + "\nErrors\n======\n\n" + missing(all) + "Warnings\n========\n\n" + behind(all);
}

void serve(int connection, const std::string& directory) {
  std::string pending;
  char block[512];
  for (ssize_t got = 0; (got = ::recv(connection, block, sizeof block, 0)) > 0;) {
    pending.append(block, static_cast<std::size_t>(got));
    for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      const std::string command = pending.substr(0, end);
      pending.erase(0, end + 1);
      std::string answer = "ERROR: Unknown command " + command + "\n";
      if (command.starts_with("CLIENT PROTOCOL ")) answer = "SERVER PROTOCOL 2\n";
      if (command.starts_with("TIMEOUT ")) answer = "OK\n";
      const bool status = command == "STATUS" || command == "VERBOSE STATUS";
      if (status) answer = report(directory);
      (void)::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (status) return;
    }
  }
}

int listen_at(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 64) == 0) {
    return listener;
  }
  ::close(listener);
  return -1;
}

// The directory, if this process has a service.
const std::string& service() {
  static const std::string directory = [] {
    const char* shared = std::getenv("ET_STANDIN_NCCL_RAS_DIR");
    const char* address = std::getenv("NCCL_RAS_ADDR");
    const char* enabled = std::getenv("NCCL_RAS_ENABLE");
    if (shared == nullptr || address == nullptr || (enabled != nullptr && std::string(enabled) == "0")) {
      return std::string();
    }
    const int listener = listen_at(address);
    if (listener < 0) return std::string();
    std::thread([listener, at = std::string(shared)] {
      for (int connection = 0; (connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        serve(connection, at);
        ::close(connection);
      }
    }).detach();
    return std::string(shared);
  }();
  return directory;
}

}  // namespace

RasEntry::RasEntry(std::uint64_t hash, int rank, int ranks) : hash_(hash), rank_(rank), ranks_(ranks) {
  static std::atomic<int> last{0};
  if (service().empty()) return;
  path_ = service() + "/" + std::to_string(::getpid()) + "-" + std::to_string(++last);
  write();
}

RasEntry::~RasEntry() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void RasEntry::started_all_reduce() {
  ++all_reduces_;
  if (!path_.empty()) write();
}

// A process that is stopped here leaves the data that it has already written.
void RasEntry::write() const {
  const std::string unfinished = path_ + kUnfinished;
  std::ofstream(unfinished) << hash_ << ' ' << ranks_ << ' ' << rank_ << ' ' << ::getpid() << ' ' << all_reduces_
                            << '\n';
  ::rename(unfinished.c_str(), path_.c_str());
}

}  // namespace standin
