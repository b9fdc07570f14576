#include "train/builtin/cuda/gpu_affinity.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <optional>

namespace elastictrain::train {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "0-3" or "8".
bool append_range(std::string_view text, std::vector<int>& processors) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash < text.size() ? parse_number(text.substr(dash + 1)) : first;
  if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) return false;
  for (int i = *first; i <= *last; ++i) processors.push_back(i);
  return true;
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

}  // namespace

std::vector<int> parse_processor_list(std::string_view text) {
  std::vector<int> processors;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (!append_range(text.substr(0, comma), processors)) return {};
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return processors;
}

std::vector<int> processors_near(std::string bus_id, const std::vector<int>& allowed, const std::string& sysfs) {
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto node = parse_number(first_line(sysfs + "/bus/pci/devices/" + bus_id + "/numa_node"));
  if (!node || *node < 0) return {};
  if (allowed != parse_processor_list(first_line(sysfs + "/devices/system/cpu/online"))) return {};
  return parse_processor_list(first_line(sysfs + "/devices/system/node/node" + std::to_string(*node) + "/cpulist"));
}

void bind_near(const device::Device& device) {
  char bus_id[32] = {};
  if (device.cuda().device_bus_id(bus_id, sizeof bus_id, device.handle()) != device::kCudaSuccess) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors_near(bus_id, allowed_processors(), "/sys")) CPU_SET(processor, &set);
  if (CPU_COUNT(&set) > 0) (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace elastictrain::train
