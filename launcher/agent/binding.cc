#include "launcher/agent/binding.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "launcher/agent/host_facts.h"
#include "launcher/process/process.h"
#include "launcher/text.h"

namespace elastictrain::launcher {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0-3" or "8".
bool append_range(std::string_view text, std::vector<int>& processors) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_number<int>(text.substr(0, dash));
  const auto last = dash < text.size() ? parse_number<int>(text.substr(dash + 1)) : first;
  if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) return false;
  for (int i = *first; i <= *last; ++i) processors.push_back(i);
  return true;
}

std::map<int, int> nodes_of_processors(const std::string& root) {
  std::map<int, int> nodes;
  const std::string folder = root + "/sys/devices/system/node";
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    const auto node = name.starts_with("node") ? parse_number<int>(std::string_view(name).substr(4)) : std::nullopt;
    if (!node) continue;
    for (const int processor : parse_processor_list(first_line(entry.path() / "cpulist"))) nodes[processor] = *node;
  }
  return nodes;
}

// Threads of one core list the same first sibling.
int first_sibling(int processor, const std::string& root) {
  const auto siblings = parse_processor_list(
      first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list"));
  return siblings.empty() ? processor : siblings.front();
}

int node_of_device(const std::string& bus_id, const std::string& root) {
  return parse_number<int>(first_line(root + "/sys/bus/pci/devices/" + bus_id + "/numa_node")).value_or(-1);
}

}  // namespace

std::vector<int> parse_processor_list(std::string_view text) {
  std::vector<int> processors;
  for (const std::string_view part : split_commas(text)) {
    if (!append_range(part, processors)) return {};
  }
  return processors;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) allowed.push_back(i);
  }
  return allowed;
}

MachineLayout read_machine_layout(const std::vector<int>& allowed, const std::string& root) {
  std::map<int, int> nodes = nodes_of_processors(root);
  std::map<std::pair<int, int>, Core> cores;  // by node and first sibling
  for (const int processor : allowed) {
    const int node = nodes[processor];
    Core& core = cores[{node, first_sibling(processor, root)}];
    core.node = node;
    core.processors.push_back(processor);
  }
  MachineLayout machine;
  for (auto& [place, core] : cores) machine.cores.push_back(std::move(core));
  for (const DriverGpu& gpu : usable_driver_gpus(root)) {
    machine.gpus.push_back({gpu.uuid, node_of_device(gpu.bus_id, root)});
  }
  return machine;
}

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

// The GPUs that the worker of a slot uses among those that are visible to it; null for one that is not known. A worker
// of several processes sees none but its own.
std::vector<const NearGpu*> gpus_of(const SlotPlace& place, const std::vector<NearGpu>& gpus) {
  if (gpus.empty()) return {};
  if (!place.visible_devices) return {&gpus[place.slot % gpus.size()]};
  const std::vector<std::string_view> visible = split_commas(*place.visible_devices);
  if (visible.empty()) return {};
  if (place.processes == 1) return {find_gpu(visible[place.slot % visible.size()], gpus)};
  std::vector<const NearGpu*> found;
  for (const std::string_view name : visible) found.push_back(find_gpu(name, gpus));
  return found;
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
  const std::vector<const NearGpu*> gpus = gpus_of(place, machine.gpus);
  const auto is_known = [](const NearGpu* gpu) { return gpu != nullptr && gpu->node >= 0; };
  if (!gpus.empty() && std::all_of(gpus.begin(), gpus.end(), is_known)) {
    std::vector<int> near;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(near), [&](int node) {
      return std::any_of(gpus.begin(), gpus.end(), [node](const NearGpu* gpu) { return gpu->node == node; });
    });
    return near.empty() ? nodes : near;
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
  const std::uint32_t processes = number_in(environment, "ELASTICTRAIN_PER_REPLICA", 1);
  const std::uint32_t hosts = std::max(1U, number_in(environment, "ELASTICTRAIN_REPLICA_HOSTS", 1));
  return {number_in(environment, "ELASTICTRAIN_SLOT", 0), number_in(environment, "ELASTICTRAIN_SLOTS", 1),
          value_of(environment, "CUDA_VISIBLE_DEVICES"), std::max(1U, processes / hosts)};
}

Result<std::vector<int>> processors_of_worker(const std::string& binding, const std::vector<std::string>& environment) {
  const auto parsed = parse_binding(binding);
  if (!parsed) return parsed.error();
  if (*parsed == Binding::kNone) return std::vector<int>{};
  return processors_of_slot(*parsed, slot_place(environment), read_machine_layout(allowed_processors()));
}

std::vector<std::string> with_own_mig_instance(std::vector<std::string> environment) {
  const SlotPlace place = slot_place(environment);
  const std::string listed = place.visible_devices.value_or("");
  const std::vector<std::string_view> visible = split_commas(listed);
  const auto is_instance = [](std::string_view name) { return name.starts_with("MIG-"); };
  if (visible.size() < 2 || !std::all_of(visible.begin(), visible.end(), is_instance)) return environment;
  const std::string own(visible[place.slot % visible.size()]);
  return merge_environment(std::move(environment), {"CUDA_VISIBLE_DEVICES=" + own});
}

std::vector<std::string> with_gpus_of_slot(std::vector<std::string> environment, std::size_t gpus) {
  const SlotPlace place = slot_place(environment);
  if (place.processes == 1) return environment;
  std::vector<std::string> offered;
  if (place.visible_devices) {
    for (const std::string_view name : split_commas(*place.visible_devices)) offered.emplace_back(name);
  } else {
    for (std::size_t i = 0; i < gpus; ++i) offered.push_back(std::to_string(i));
  }
  const std::size_t workers = offered.size() / place.processes;  // that have GPUs of their own
  if (workers == 0) return environment;
  const auto first = offered.begin() + static_cast<std::ptrdiff_t>(place.slot % workers * place.processes);
  const std::vector<std::string> own(first, first + place.processes);
  return merge_environment(std::move(environment), {"CUDA_VISIBLE_DEVICES=" + join_with_commas(own)});
}

}  // namespace elastictrain::launcher
