#include "train/comm/nccl/nccl_library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "train/device/shared_library.h"

namespace elastictrain::comm {
namespace {

struct Issue {
  int first;
  int last;
  const char* text;
};

constexpr Issue kIssues[] = {
    {0, 21799, "older than 2.18: it cannot be built in the background"},
    {22602, 22602, "crashes in its RAS thread (nccl#1669); workers get NCCL_RAS_ENABLE=0"},
    {22707, 22707, "crashes in its RAS thread (nccl#1996); workers get NCCL_RAS_ENABLE=0"},
    {22803, 22808, "crashes when communicators are rebuilt in a running process (fixed in 2.28.9)"},
    {22809, 22809, "reported to crash on V100 (nccl#2159) and after a million collectives on DGX Spark (nccl#2213)"},
};

constexpr int kRasCrashes[] = {22602, 22707};

}  // namespace

bool nccl_ras_crashes(int version) {
  return std::find(std::begin(kRasCrashes), std::end(kRasCrashes), version) != std::end(kRasCrashes);
}

std::vector<std::string> known_nccl_issues(int version) {
  std::vector<std::string> found;
  for (const Issue& issue : kIssues) {
    if (version >= issue.first && version <= issue.last) found.emplace_back(issue.text);
  }
  return found;
}

namespace {

constexpr int kOldestVersion = 21800;

Result<const NcclLibrary*> open_once() {
  static NcclLibrary table;
  const auto library =
      device::SharedLibrary::open({"NCCL", "ELASTICTRAIN_NCCL_LIBRARY", {"libnccl.so.2", "libnccl.so"}});
  if (!library) return library.error();
  device::SymbolLoader loader(*library);
#define ET_LOAD(member, symbol, parameters) loader.require(table.member, #symbol);
#define ET_OFFER(member, symbol, parameters) loader.offer(table.member, #symbol);
  ET_NCCL_FUNCTIONS(ET_LOAD)
  ET_NCCL_OPTIONAL_FUNCTIONS(ET_OFFER)
#undef ET_LOAD
#undef ET_OFFER
  loader.require(table.error_text, "ncclGetErrorString");
  loader.require(table.last_error, "ncclGetLastError");
  if (auto complete = loader.status("NCCL"); !complete) return complete.error();
  table.path = library->path();
  if (table.get_version(&table.version) != kNcclSuccess || table.version < kOldestVersion) {
    return Error{ErrorCode::kUnavailable, "NCCL at " + table.path + " is " + table.version_text() +
                                              "; 2.18 or newer is needed. Set ELASTICTRAIN_NCCL_LIBRARY to one"};
  }
  if (nccl_ras_crashes(table.version)) ::setenv("NCCL_RAS_ENABLE", "0", 0);
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  ::setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "20", 0);
  return &table;
}

}  // namespace

Result<const NcclLibrary*> NcclLibrary::get() {
  static const Result<const NcclLibrary*> outcome = open_once();
  return outcome;
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string NcclLibrary::version_text() const {
  return nccl_version_text(version);
}

Error NcclLibrary::error(NcclCode code, const std::string& doing, NcclHandle comm) const {
  std::string message = "NCCL could not " + doing + ": " + error_text(code);
  const char* last = comm != nullptr ? last_error(comm) : nullptr;
  if (last != nullptr && *last != '\0') message += std::string(" (") + last + ")";
  const bool blames_peer = code == kNcclRemoteError || code == kNcclSystemError;
  return {blames_peer ? ErrorCode::kPeerLost : ErrorCode::kInternal, std::move(message)};
}

}  // namespace elastictrain::comm
