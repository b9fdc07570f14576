// elastictrain: sums of the processes that a worker has besides the one with its session.
//
// A worker is one process with a session. Where it leads others, each of them may sum what it holds with the processes
// of the same index in the other workers: on a plane, which connects these for one generation. What each worker's
// session says to the function `start` of Session::all_reduce_elsewhere_async() goes to its processes, and their
// answers come back by `finish`; how is the program's affair.
//
//   elastictrain::Plane plane;                    // once; tells its endpoint to the process with the session
//   plane.build({.generation = sum.generation, .token = sum.token, .encryption = sum.encryption,
//                .index = 1,                      // of this process in its worker
//                .rank = sum.rank, .endpoints = all});
//   plane.all_reduce({.data = gradient, .count = n, .step = sum.step, .bucket = sum.bucket, .scale = sum.scale, ...});
//
// In the environment, as for a session: ELASTICTRAIN_BIND and ELASTICTRAIN_HOST_KEY, both of this process's host,
// ELASTICTRAIN_TRANSPORT, ELASTICTRAIN_ALGORITHM, ELASTICTRAIN_PROCESSORS and ELASTICTRAIN_ENCRYPTION.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "elastictrain/session.hpp"

namespace elastictrain {

// What connects a plane for one generation.
struct PlaneWorld {
  std::uint64_t generation = 0;
  std::array<std::uint8_t, 16> token = {};  // of the generation; planes of different indices have different ones
  std::uint32_t encryption = 0;             // of connections between hosts, equal on all ranks
  std::uint32_t index = 0;
  std::uint32_t rank = 0;
  std::span<const std::byte> endpoints = {};  // of all ranks, Plane::kEndpointBytes each
  std::chrono::milliseconds time_limit{30'000};
};

// One sum; the fields are those of SumElsewhere.
struct PlaneSum {
  void* data = nullptr;  // in place
  std::size_t count = 0;
  DataType type = DataType::kFloat32;  // or kFloat16 or kBFloat16, summed in single precision and rounded once
  std::uint64_t step = 0;
  std::uint32_t bucket = 0;
  float scale = 1;
  bool has_input = true;
  bool keeps = false;
  bool is_kept = false;
  bool wants_norms = false;
};

struct PlaneNorms {
  double local_square_sum = 0;  // of this rank's input, before it is scaled
  double reduced_square_sum = 0;
};

// Failure: SessionInterrupted where a sum or a connection has ended that the plane of a later generation makes again
// (a rank is lost, abort(), the time limit); SessionError otherwise. Thread: one at a time, but abort() any. All ranks
// make the same sums in the same order. A copy of each input that is kept stays in memory until the plane ends.
class ELASTICTRAIN_CPP_API Plane {
 public:
  static constexpr std::size_t kEndpointBytes = 512;

  Plane();
  ~Plane();
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  // kEndpointBytes; the same as long as the plane exists.
  std::vector<std::byte> endpoint() const;
  // Connects the ranks of a generation and leaves the one before, whose sums all of them have completed or given up.
  void build(const PlaneWorld& world);
  // The sum over all ranks of each input times its scale. What a failed sum leaves in the memory is undefined; the same
  // bucket of the same step, with `is_kept`, begins with the input again.
  PlaneNorms all_reduce(const PlaneSum& sum);
  // Ends what goes on for this generation or one before, and what would begin for it. Returns at once.
  void abort(std::uint64_t generation) noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace elastictrain
