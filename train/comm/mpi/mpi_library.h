// Purpose: an MPI library found at run time, behind one interface for the two existing binary interfaces: Open MPI's,
// where handles are addresses of symbols, and MPICH's (also Intel's and Cray's), where they are numbers. The build
// needs no MPI header, and a machine without MPI runs everything else.
//
// Ownership: one for the process, never unloaded: MPI's own threads and handlers may outlive their use. Thread: any if
// threads_may_call() is true, otherwise one at a time. Failure: kUnavailable names the libraries that were tried; MPI
// errors are kIo with the library's own message. Source: MPI 4.0; mpi.h of Open MPI 4.1.4 and of MPICH 4.0.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::comm {

// A handle of either kind.
struct MpiRequest {
  std::uintptr_t handle = 0;
};

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;

  // Opens $ELASTICTRAIN_MPI_LIBRARY, or a library that the process has already loaded, or the first one with a usual
  // name.
  static Result<std::unique_ptr<MpiLibrary>> open();

  // "Open MPI v4.1.4, …" or "MPICH Version: 4.0.2 …": the first line of the library's version text.
  virtual std::string version() const = 0;
  virtual bool is_open_mpi() const = 0;

  // Calls MPI_Init_thread unless the program has called it, and makes a communicator of our own over all ranks: every
  // rank of the launch must take part. Afterwards errors are returned as values.
  virtual Status join() = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int greatest_tag() const = 0;
  virtual std::string thread_level() const = 0;  // "multiple", …
  virtual bool threads_may_call() const = 0;     // at the same time
  virtual bool began_here() const = 0;           // join() called MPI_Init, not the program

  // Whole bytes. `bytes` belongs to the library until the request is done. From any rank: `from` is kAnyRank.
  static constexpr int kAnyRank = -1;
  virtual Result<MpiRequest> send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual Result<MpiRequest> receive(std::span<std::byte> bytes, int from, int tag) = 0;
  // The number of bytes once the request is done.
  virtual Result<std::optional<std::size_t>> test(MpiRequest& request) = 0;
  virtual void cancel(MpiRequest& request) = 0;

  // MPI_Finalize: waits for all ranks of the launch.
  virtual Status leave() = 0;
};

}  // namespace elastictrain::comm
