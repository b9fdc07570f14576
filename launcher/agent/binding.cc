#include "launcher/agent/binding.h"

#include <algorithm>
#include <iterator>

#include "launcher/process/process.h"
#include "launcher/text.h"

namespace elastictrain::launcher {
namespace {

struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Share even_share(std::size_t count, const SlotPlace& place) {
  const std::size_t slots = std::max(place.slots, place.slot + 1);
  if (count <= slots) return {place.slot % count, place.slot % count + 1};
  return {place.slot * count / slots, (place.slot + 1) * count / slots};
}

const NearGpu* find_gpu(std::string_view name, const std::vector<NearGpu>& gpus) {
  if (const auto number = parse_number<std::uint32_t>(name)) return *number < gpus.size() ? &gpus[*number] : nullptr;
  if (!name.starts_with("GPU-")) return nullptr;
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [name](const NearGpu& gpu) { return gpu.uuid.starts_with(name); });
  return found == gpus.end() ? nullptr : &*found;
}

// The GPU that the worker of a slot uses among those that are visible to it.
const NearGpu* gpu_of(const SlotPlace& place, const std::vector<NearGpu>& gpus) {
  if (gpus.empty()) return nullptr;
  if (!place.visible_devices) return &gpus[place.slot % gpus.size()];
  const std::vector<std::string_view> visible = split_commas(*place.visible_devices);
  return visible.empty() ? nullptr : find_gpu(visible[place.slot % visible.size()], gpus);
}

std::vector<int> nodes_with_cores(const MachineLayout& machine) {
  std::vector<int> nodes;
  for (const Core& core : machine.cores) {
    if (nodes.empty() || nodes.back() != core.node) nodes.push_back(core.node);
  }
  return nodes;
}

std::vector<int> nodes_of(Binding binding, const SlotPlace& place, const MachineLayout& machine) {
  const std::vector<int> nodes = nodes_with_cores(machine);
  const NearGpu* gpu = gpu_of(place, machine.gpus);
  if (gpu != nullptr && gpu->node >= 0) {
    return std::count(nodes.begin(), nodes.end(), gpu->node) > 0 ? std::vector<int>{gpu->node} : nodes;
  }
  if (binding == Binding::kGpuNuma) return nodes;
  const Share share = even_share(nodes.size(), place);
  return {nodes.begin() + static_cast<std::ptrdiff_t>(share.begin),
          nodes.begin() + static_cast<std::ptrdiff_t>(share.end)};
}

std::vector<Core> cores_of(Binding binding, const SlotPlace& place, const MachineLayout& machine) {
  std::vector<Core> chosen;
  if (binding == Binding::kCore) {
    const Share share = even_share(machine.cores.size(), place);
    for (std::size_t i = share.begin; i < share.end; ++i) chosen.push_back(machine.cores[i]);
    return chosen;
  }
  const std::vector<int> nodes = nodes_of(binding, place, machine);
  std::copy_if(machine.cores.begin(), machine.cores.end(), std::back_inserter(chosen),
               [&](const Core& core) { return std::count(nodes.begin(), nodes.end(), core.node) > 0; });
  return chosen;
}

std::uint32_t number_in(const std::vector<std::string>& environment, const char* name, std::uint32_t otherwise) {
  return parse_number<std::uint32_t>(value_of(environment, name).value_or("")).value_or(otherwise);
}

}  // namespace

std::vector<int> processors_of_slot(Binding binding, const SlotPlace& place, const MachineLayout& machine) {
  if (binding == Binding::kNone || machine.cores.empty()) return {};
  const std::vector<Core> chosen = cores_of(binding, place, machine);
  if (chosen.size() == machine.cores.size()) return {};
  std::vector<int> processors;
  for (const Core& core : chosen) {
    processors.insert(processors.end(), core.processors.begin(), core.processors.end());
  }
  std::sort(processors.begin(), processors.end());
  return processors;
}

Result<Binding> parse_binding(const std::string& word) {
  constexpr std::pair<std::string_view, Binding> kWords[] = {
      {"none", Binding::kNone}, {"core", Binding::kCore}, {"numa", Binding::kNuma}, {"gpu-numa", Binding::kGpuNuma}};
  for (const auto& [known, binding] : kWords) {
    if (word == known) return binding;
  }
  return Error{ErrorCode::kInvalid, "ELASTICTRAIN_CPU_BIND=" + word + " is not one of none, core, numa and gpu-numa"};
}

SlotPlace slot_place(const std::vector<std::string>& environment) {
  return {number_in(environment, "ELASTICTRAIN_SLOT", 0), number_in(environment, "ELASTICTRAIN_SLOTS", 1),
          value_of(environment, "CUDA_VISIBLE_DEVICES")};
}

Result<std::vector<int>> processors_of_worker(const std::string& binding, const std::vector<std::string>& environment) {
  const auto parsed = parse_binding(binding);
  if (!parsed) return parsed.error();
  if (*parsed == Binding::kNone) return std::vector<int>{};
  return processors_of_slot(*parsed, slot_place(environment), read_machine_layout(allowed_processors()));
}

}  // namespace elastictrain::launcher
