// The C API over Plane.
#include <cstddef>
#include <cstring>

#include "elastictrain/elastictrain.h"
#include "elastictrain/plane.hpp"
#include "train/c_api/guard.h"

struct et_plane {
  elastictrain::Plane plane;
};

namespace elastictrain::c_api {
namespace {

static_assert(Plane::kEndpointBytes == ET_PLANE_ENDPOINT_BYTES);

PlaneWorld world_of(const et_plane_world& world) {
  PlaneWorld out{.generation = world.generation,
                 .encryption = world.encryption,
                 .index = world.index,
                 .rank = world.rank,
                 .endpoints = {static_cast<const std::byte*>(world.endpoints),
                               world.world_size * std::size_t{ET_PLANE_ENDPOINT_BYTES}},
                 .time_limit = wait_of(world.time_limit_ms)};
  std::memcpy(out.token.data(), world.token, out.token.size());
  return out;
}

PlaneSum sum_of(const et_plane_sum& sum) {
  return {.data = sum.data,
          .count = sum.count,
          .type = to_cpp(sum.type),
          .step = sum.step,
          .bucket = sum.bucket,
          .scale = sum.scale,
          .has_input = sum.has_input != 0,
          .keeps = sum.keeps != 0,
          .is_kept = sum.is_kept != 0,
          .wants_norms = sum.wants_norms != 0};
}

}  // namespace
}  // namespace elastictrain::c_api

namespace {

using elastictrain::c_api::guarded;
using elastictrain::c_api::null_argument;
using elastictrain::c_api::read_struct;
using elastictrain::c_api::sum_of;
using elastictrain::c_api::unknown_struct;
using elastictrain::c_api::world_of;
using elastictrain::c_api::write_struct;

}  // namespace

extern "C" {

et_status et_plane_open(et_plane** plane) {
  if (plane == nullptr) return null_argument();
  *plane = nullptr;
  return guarded([&] { *plane = new et_plane; });
}

void et_plane_close(et_plane* plane) {
  delete plane;
}

et_status et_plane_endpoint(const et_plane* plane, void* endpoint) {
  if (plane == nullptr || endpoint == nullptr) return null_argument();
  return guarded([&] {
    const auto block = plane->plane.endpoint();
    std::memcpy(endpoint, block.data(), block.size());
  });
}

et_status et_plane_build(et_plane* plane, const et_plane_world* world) {
  if (plane == nullptr || world == nullptr) return null_argument();
  et_plane_world known = ET_PLANE_WORLD_INIT;
  if (!read_struct(world, known)) return unknown_struct();
  if (known.endpoints == nullptr) return null_argument();
  return guarded([&] { plane->plane.build(world_of(known)); });
}

et_status et_plane_all_reduce(et_plane* plane, et_plane_sum* sum) {
  if (plane == nullptr || sum == nullptr) return null_argument();
  et_plane_sum known = ET_PLANE_SUM_INIT;
  if (!read_struct(sum, known)) return unknown_struct();
  return guarded([&] {
    const auto norms = plane->plane.all_reduce(sum_of(known));
    known.local_square_sum = norms.local_square_sum;
    known.reduced_square_sum = norms.reduced_square_sum;
    write_struct(known, sum);
  });
}

et_status et_plane_abort(et_plane* plane, uint64_t generation) {
  if (plane == nullptr) return null_argument();
  return guarded([&] { plane->plane.abort(generation); });
}

}  // extern "C"
