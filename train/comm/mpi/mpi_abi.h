// Purpose: the differences between the two binary interfaces of MPI: the type of a handle, and the values of the few
// constants that we use. Source: mpi.h of Open MPI 4.1.4 and of MPICH 4.0.2. Both promise to keep these within
// libmpi.so.40 and libmpi.so.12 (the "MPICH ABI initiative").
#pragma once

#include <cstdint>

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

}  // namespace elastictrain::comm
