// Purpose: the RAS service of the stand-in for NCCL: any process of the job reports the number of all-reduces that each
// rank has started, over the text protocol of ncclras.
//
// NCCL's own threads find one another over a network of their own; these share a directory, ET_STANDIN_NCCL_RAS_DIR.
// Without it, or without NCCL_RAS_ADDR, or with NCCL_RAS_ENABLE=0, there is no service.
// Thread: any. Failure: no service.
// Source: NCCL 2.28.9, src/ras/client_support.cc.
#pragma once

#include <cstdint>
#include <string>

namespace standin {

// One communicator of this process in the shared directory, while the object exists.
class RasEntry {
 public:
  RasEntry(std::uint64_t hash, int rank, int ranks);
  ~RasEntry();
  RasEntry(const RasEntry&) = delete;
  RasEntry& operator=(const RasEntry&) = delete;

  std::uint64_t hash() const { return hash_; }
  void started_all_reduce();

 private:
  void write() const;

  std::string path_;  // empty: there is no service
  std::uint64_t hash_;
  int rank_;
  int ranks_;
  std::uint64_t all_reduces_ = 0;
};

}  // namespace standin
