#include "train/session/step_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace elastictrain::session {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) continue;
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string member(const char* key, std::uint64_t value) {
  return ",\"" + std::string(key) + "\":" + std::to_string(value);
}

}  // namespace

Result<StepLog> StepLog::open(const std::string& directory, const std::string& node) {
  StepLog log;
  if (directory.empty()) return log;
  std::string file_node = node;
  for (char& c : file_node) c = c == '/' ? '_' : c;
  const std::string path = directory + "/w-" + file_node + "-" + std::to_string(getpid()) + ".jsonl";
  log.file_.reset(std::fopen(path.c_str(), "ae"));
  if (!log.file_) {
    return Error{ErrorCode::kIo, "cannot open the step log " + path + ": " + std::strerror(errno) +
                                     "; make the directory of ELASTICTRAIN_STEP_LOG writable"};
  }
  std::setvbuf(log.file_.get(), nullptr, _IOLBF, 4096);
  log.tail_ = ",\"node\":" + quoted(node) + member("pid", static_cast<std::uint64_t>(getpid())) + "}\n";
  return log;
}

void StepLog::event(const char* name) {
  line(name, {});
}

void StepLog::event(const char* name, std::uint32_t rank, std::uint32_t world_size, std::uint64_t generation) {
  line(name, member("rank", rank) + member("world", world_size) + member("generation", generation));
}

void StepLog::step(std::uint64_t step, std::uint32_t rank, std::uint32_t world_size, std::uint64_t generation) {
  line("step",
       member("step", step) + member("world", world_size) + member("rank", rank) + member("generation", generation));
}

void StepLog::line(const char* name, const std::string& fields) {
  if (!file_) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char head[64];
  std::snprintf(head, sizeof head, "{\"ev\":\"%s\",\"t\":%lld.%09ld", name, static_cast<long long>(now.tv_sec),
                now.tv_nsec);
  std::fputs((head + fields + tail_).c_str(), file_.get());
}

}  // namespace elastictrain::session
