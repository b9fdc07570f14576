// Compiles only if our declarations of NCCL match the vendor's of 2.28: values, fields and sizes of all parameters.
#include <nccl.h>

#include <type_traits>

#include "train/comm/nccl/nccl_library.h"

namespace elastictrain::comm {
namespace {

static_assert(kNcclSuccess == ncclSuccess && kNcclSystemError == ncclSystemError);
static_assert(kNcclInvalidUsage == ncclInvalidUsage && kNcclRemoteError == ncclRemoteError &&
              kNcclInProgress == ncclInProgress);
static_assert(kNcclUint8 == ncclUint8 && kNcclFloat32 == ncclFloat32 && kNcclSum == ncclSum);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && sizeof(NcclCode) == sizeof(ncclResult_t));

#if NCCL_VERSION_CODE == 22809
static_assert(sizeof(NcclConfig) == sizeof(ncclConfig_t));
static_assert(NcclConfig().version == NCCL_VERSION_CODE && NcclConfig().blocking == NCCL_CONFIG_UNDEF_INT);
#define ET_SAME_PLACE(ours, theirs) static_assert(offsetof(NcclConfig, ours) == offsetof(ncclConfig_t, theirs))
ET_SAME_PLACE(magic, magic);
ET_SAME_PLACE(version, version);
ET_SAME_PLACE(blocking, blocking);
ET_SAME_PLACE(net_name, netName);
ET_SAME_PLACE(traffic_class, trafficClass);
ET_SAME_PLACE(comm_name, commName);
ET_SAME_PLACE(shrink_share, shrinkShare);
ET_SAME_PLACE(nvlink_centric_sched, nvlinkCentricSched);
#undef ET_SAME_PLACE
#endif

template <class Ours, class Theirs>
struct Agree;

template <class A, class... Ours, class B, class... Theirs>
struct Agree<A (*)(Ours...), B(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return ((sizeof(Ours) == sizeof(Theirs)) && ...) && ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
    } else {
      return false;
    }
  }();
};

#define ET_COMPARE(member, symbol, parameters) \
  static_assert(Agree<decltype(NcclLibrary::member), decltype(symbol)>::value, #symbol);
ET_NCCL_FUNCTIONS(ET_COMPARE)
#if NCCL_VERSION_CODE >= 22809
ET_NCCL_OPTIONAL_FUNCTIONS(ET_COMPARE)
static_assert(kNcclShrinkDefault == NCCL_SHRINK_DEFAULT && kNcclRevokeDefault == NCCL_REVOKE_DEFAULT);
#endif
#undef ET_COMPARE

}  // namespace
}  // namespace elastictrain::comm
