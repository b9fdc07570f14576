#include "launcher/agent/machine_layout.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/agent/driver_gpus.h"
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

}  // namespace elastictrain::launcher
