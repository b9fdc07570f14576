// Purpose: which processors a worker may use, by its slot: an even share of the cores, those of one NUMA node, or those
// of its GPU's node.
//
// Pure, but for processors_of_worker(). Thread: any. Failure: where the machine does not say enough, or there is
// nothing to choose from, nothing is bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/machine_layout.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// kGpuNuma: its GPU's node where that is known, else nothing; kNuma: else an even share of the nodes.
enum class Binding : std::uint8_t { kNone, kCore, kNuma, kGpuNuma };

struct SlotPlace {
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;                     // of the host
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES, where it is set
};

// Ascending; empty: all that the agent may use. Where there are more slots than cores or nodes, slots share one.
std::vector<int> processors_of_slot(Binding binding, const SlotPlace& place, const MachineLayout& machine);

// "none", "core", "numa" or "gpu-numa"; an error for another word.
Result<Binding> parse_binding(const std::string& word);

// By a worker's environment: ELASTICTRAIN_SLOT, ELASTICTRAIN_SLOTS and CUDA_VISIBLE_DEVICES.
SlotPlace slot_place(const std::vector<std::string>& environment);

// processors_of_slot() on this machine.
Result<std::vector<int>> processors_of_worker(const std::string& binding, const std::vector<std::string>& environment);

}  // namespace elastictrain::launcher
