// Purpose: the part of NCCL that we use, found at run time, and known defects of its versions.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

// The known defects of a version of NCCL that affect swaps of communicators. Pure.
// Source: NVIDIA/nccl issues and the release notes of NVIDIA's resiliency extension, as named in each line.

namespace elastictrain::comm {

// `version` as returned by ncclGetVersion: 22809 for 2.28.9.
std::vector<std::string> known_nccl_issues(int version);

// Whether its RAS service crashes the process.
bool nccl_ras_crashes(int version);

// The part of NCCL that we use, found at run time, with declarations of our own (tests/standin compares them
// with the vendor's where those exist). One binary works with 2.18 and everything newer.
//
// Ownership: one table for the lifetime of the process. Thread: any. Failure: kUnavailable without the library.
// Source: nccl.h of 2.28.9.

using NcclHandle = void*;
using NcclCode = int;

inline constexpr NcclCode kNcclSuccess = 0;
inline constexpr NcclCode kNcclSystemError = 2;
inline constexpr NcclCode kNcclInvalidUsage = 5;
inline constexpr NcclCode kNcclRemoteError = 6;
inline constexpr NcclCode kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclShrinkDefault = 0;
inline constexpr int kNcclRevokeDefault = 0;
inline constexpr std::size_t kNcclIdBytes = 128;

struct NcclUniqueId {
  char internal[kNcclIdBytes];
};

// A library that knows fewer fields reads only those.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
  int channels_per_net_peer = INT_MIN;
  int nvlink_centric_sched = INT_MIN;
};

// X(member, symbol, parameters)
#define ET_NCCL_FUNCTIONS(X)                                                                   \
  X(get_version, ncclGetVersion, (int*))                                                       \
  X(get_unique_id, ncclGetUniqueId, (NcclUniqueId*))                                           \
  X(init_rank, ncclCommInitRankConfig, (NcclHandle*, int, NcclUniqueId, int, NcclConfig*))     \
  X(async_error, ncclCommGetAsyncError, (NcclHandle, NcclCode*))                               \
  X(abort, ncclCommAbort, (NcclHandle))                                                        \
  X(finalize, ncclCommFinalize, (NcclHandle))                                                  \
  X(destroy, ncclCommDestroy, (NcclHandle))                                                    \
  X(all_reduce, ncclAllReduce, (const void*, void*, std::size_t, int, int, NcclHandle, void*)) \
  X(send, ncclSend, (const void*, std::size_t, int, int, NcclHandle, void*))                   \
  X(receive, ncclRecv, (void*, std::size_t, int, int, NcclHandle, void*))                      \
  X(group_start, ncclGroupStart, ())                                                           \
  X(group_end, ncclGroupEnd, ())

// Not available in every version.
#define ET_NCCL_OPTIONAL_FUNCTIONS(X)                                                                  \
  X(init_scalable, ncclCommInitRankScalable, (NcclHandle*, int, int, int, NcclUniqueId*, NcclConfig*)) \
  X(shrink, ncclCommShrink, (NcclHandle, int*, int, NcclHandle*, NcclConfig*, int))                    \
  X(revoke, ncclCommRevoke, (NcclHandle, int))

struct NcclLibrary {
#define ET_DECLARE(member, symbol, parameters) NcclCode(*member) parameters = nullptr;
  ET_NCCL_FUNCTIONS(ET_DECLARE)
  ET_NCCL_OPTIONAL_FUNCTIONS(ET_DECLARE)
#undef ET_DECLARE
  const char* (*error_text)(NcclCode) = nullptr;
  const char* (*last_error)(NcclHandle) = nullptr;
  std::string path;
  int version = 0;  // 22809 for 2.28.9

  // Opened by the first call, whose result is kept. If its RAS service is known to crash, it is switched off in this
  // process unless the user has set NCCL_RAS_ENABLE. Unless the user has set NCCL_RUNTIME_CONNECT, communicators
  // connect all algorithms while they are built; NCCL's default leaves that to the first collective of each. The same
  // for the pause between two tries to connect (NCCL_SOCKET_RETRY_SLEEP_MSEC), which grows with each of 34 tries: an
  // abort may have to wait for one.
  static Result<const NcclLibrary*> get();

  std::string version_text() const;
  // `doing`: "start an all-reduce". kPeerLost if NCCL blames another process, otherwise kInternal.
  Error error(NcclCode code, const std::string& doing, NcclHandle comm = nullptr) const;
};

std::string nccl_version_text(int version);

}  // namespace elastictrain::comm
