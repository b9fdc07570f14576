// Purpose: an MPI library found at run time, behind one interface for the binary interfaces of Open MPI and MPICH.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "supervisor/protocol/result.h"

// The differences between the two binary interfaces of MPI: the type of a handle, and the values of the few
// constants that we use. Source: mpi.h of Open MPI 4.1.4 and of MPICH 4.0.2. Both promise to keep these within
// libmpi.so.40 and libmpi.so.12 (the "MPICH ABI initiative").

namespace elastictrain::comm {

template <class Handle>
struct MpiConstants {
  Handle comm_world{};
  Handle byte{};
  Handle errors_return{};
  Handle no_request{};
  int any_source = 0;
  int key_of_greatest_tag = 0;
};

using MpichHandle = int;
inline constexpr MpiConstants<MpichHandle> kMpichConstants{
    .comm_world = 0x44000000,
    .byte = 0x4c00010d,
    .errors_return = 0x54000001,
    .no_request = 0x2c000000,
    .any_source = -2,
    .key_of_greatest_tag = 0x64400001,
};

// Its handles are addresses of these symbols.
using OpenMpiHandle = void*;
inline constexpr const char* kOpenMpiCommWorld = "ompi_mpi_comm_world";
inline constexpr const char* kOpenMpiByte = "ompi_mpi_byte";
inline constexpr const char* kOpenMpiErrorsReturn = "ompi_mpi_errors_return";
inline constexpr const char* kOpenMpiNoRequest = "ompi_request_null";
inline constexpr int kOpenMpiAnySource = -1;
inline constexpr int kOpenMpiKeyOfGreatestTag = 0;

// The same in both.
inline constexpr int kMpiThreadSerialized = 2;
inline constexpr int kMpiThreadMultiple = 3;
// Larger than any MPI_Status and than any text that MPI writes.
inline constexpr std::size_t kMpiStatusBytes = 64;
inline constexpr std::size_t kMpiTextBytes = 8192 + 1;

// An MPI library found at run time, behind one interface for the two existing binary interfaces: Open MPI's,
// where handles are addresses of symbols, and MPICH's (also Intel's and Cray's), where they are numbers. The build
// needs no MPI header, and a machine without MPI runs everything else.
//
// Ownership: one for the process, never unloaded: MPI's own threads and handlers may outlive their use. Thread: any if
// threads_may_call() is true, otherwise one at a time. Failure: kUnavailable names the libraries that were tried; MPI
// errors are kIo with the library's own message. Source: MPI 4.0; mpi.h of Open MPI 4.1.4 and of MPICH 4.0.2.

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
