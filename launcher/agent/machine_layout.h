// Purpose: the layout of this machine's processors, as Linux and the GPUs' driver describe it: cores, NUMA nodes, and
// the node of each GPU.
//
// Thread: any; reads files below `root`. Errors: a processor or GPU without a description counts as part of one node,
// as a core of its own, or as a GPU whose node is not known; more processors than a cpu_set_t holds (1024) are read as
// none.
// Source: Linux, Documentation/ABI (sysfs-devices-system-cpu, sysfs-devices-node, sysfs-bus-pci).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elastictrain::launcher {

struct Core {
  int node = 0;
  std::vector<int> processors;  // several if it runs several threads
};

struct NearGpu {
  std::string uuid;
  int node = -1;  // -1: not known
};

struct MachineLayout {
  std::vector<Core> cores;    // by node; of the processors that this process may use
  std::vector<NearGpu> gpus;  // those that this process may use, by bus id, as CUDA counts GPUs of one kind
};

// "0-3,8" as numbers, in order; empty for text that is not such a list.
std::vector<int> parse_processor_list(std::string_view text);

// Ascending: the processors that the batch system, a container or the caller's own affinity allow.
std::vector<int> allowed_processors();

MachineLayout read_machine_layout(const std::vector<int>& allowed, const std::string& root = "");

}  // namespace elastictrain::launcher
