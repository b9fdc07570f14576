// Purpose: an MPI library that was found at run time, behind one interface for the two binary interfaces there are:
// Open MPI's, where handles are addresses of symbols, and MPICH's (also Intel's and Cray's), where they are numbers. No
// header of any MPI is needed to build, and a machine without one runs everything else.
//
// Ownership: one for the process, never unloaded: MPI's own threads and handlers may outlive their use. Thread: from
// any where threads_may_call() is true, else from one at a time. Failure: kUnavailable names what was looked for and
// where; errors of MPI are kIo in the library's own words. Source: MPI 4.0; mpi.h of Open MPI 4.1.4 and of MPICH 4.0.2.
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

  // Opens $ELASTICTRAIN_MPI_LIBRARY, or what the process has loaded already, or the first library of a usual name.
  static Result<std::unique_ptr<MpiLibrary>> open();

  // "Open MPI v4.1.4, …" or "MPICH Version: 4.0.2 …": the first line of what the library says of itself.
  virtual std::string version() const = 0;
  virtual bool is_open_mpi() const = 0;

  // MPI_Init_thread unless the program has called it, and a communicator of our own over all ranks: every rank of the
  // launch has to take part. Errors are values from then on.
  virtual Status join() = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int greatest_tag() const = 0;
  virtual std::string thread_level() const = 0;  // "multiple", …
  virtual bool threads_may_call() const = 0;     // at the same time
  virtual bool began_here() const = 0;           // join() called MPI_Init, not the program

  // Whole bytes; `bytes` stays with the library until the request is done. From any rank: `from` is kAnyRank.
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
