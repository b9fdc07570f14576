// Purpose: the part of a machine that a worker may use, by its slot: processors, from the layout of cores, NUMA
// nodes and GPUs, and its MIG instance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

// The layout of this machine's processors, as Linux and the GPUs' driver describe it: cores, NUMA nodes, and
// the node of each GPU.
//
// Thread: any; reads files below `root`. Errors: a processor or GPU without a description counts as part of one node,
// as a core of its own, or as a GPU whose node is not known; more processors than a cpu_set_t holds (1024) are read as
// none.
// Source: Linux, Documentation/ABI (sysfs-devices-system-cpu, sysfs-devices-node, sysfs-bus-pci).

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

// The processors that a worker may use, by its slot: an even share of the cores, those of one NUMA node, or
// those of its GPU's node.
//
// Pure, except for processors_of_worker(). Thread: any. Errors: if the machine does not provide enough information, or
// there is nothing to choose from, nothing is bound.

// kGpuNuma: its GPU's node if that is known, otherwise no binding; kNuma: otherwise an even share of the nodes.
enum class Binding : std::uint8_t { kNone, kCore, kNuma, kGpuNuma };

struct SlotPlace {
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;                     // on the host
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES, if it is set
  std::uint32_t processes = 1;                 // of the worker on this host, which have a GPU each
};

// Ascending; empty: all that the agent may use. If there are more slots than cores or nodes, slots share one.
std::vector<int> processors_of_slot(Binding binding, const SlotPlace& place, const MachineLayout& machine);

// "none", "core", "numa" or "gpu-numa"; an error for any other text.
Result<Binding> parse_binding(const std::string& word);

// From a worker's environment: ELASTICTRAIN_SLOT, ELASTICTRAIN_SLOTS, CUDA_VISIBLE_DEVICES, ELASTICTRAIN_PER_REPLICA
// and ELASTICTRAIN_REPLICA_HOSTS.
SlotPlace slot_place(const std::vector<std::string>& environment);

// processors_of_slot() on this machine.
Result<std::vector<int>> processors_of_worker(const std::string& binding, const std::vector<std::string>& environment);

// A MIG instance for each worker. CUDA shows a process only the first of the instances that
// CUDA_VISIBLE_DEVICES lists, so a worker is given that of its slot. Pure.

// A worker's environment ("NAME=value"), unchanged unless CUDA_VISIBLE_DEVICES lists several MIG instances.
std::vector<std::string> with_own_mig_instance(std::vector<std::string> environment);

// GPUs for each worker of several processes, by its slot: to each process of it they are the first ones that there are.
// Pure.

// A worker's environment, with as many of the `gpus` that this host offers, or that CUDA_VISIBLE_DEVICES lists, as the
// worker has processes on it. Unchanged if it has one, or if there are fewer. If there are fewer than all slots need,
// slots share them.
std::vector<std::string> with_gpus_of_slot(std::vector<std::string> environment, std::size_t gpus);

}  // namespace elastictrain::launcher
