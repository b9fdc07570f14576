#include "launcher/agent/mig_instances.h"

#include <algorithm>
#include <utility>

#include "launcher/agent/binding.h"
#include "launcher/process/process.h"
#include "launcher/text.h"

namespace elastictrain::launcher {

std::vector<std::string> with_own_mig_instance(std::vector<std::string> environment) {
  const SlotPlace place = slot_place(environment);
  const std::string listed = place.visible_devices.value_or("");
  const std::vector<std::string_view> visible = split_commas(listed);
  const auto is_instance = [](std::string_view name) { return name.starts_with("MIG-"); };
  if (visible.size() < 2 || !std::all_of(visible.begin(), visible.end(), is_instance)) return environment;
  const std::string own(visible[place.slot % visible.size()]);
  return merge_environment(std::move(environment), {"CUDA_VISIBLE_DEVICES=" + own});
}

}  // namespace elastictrain::launcher
