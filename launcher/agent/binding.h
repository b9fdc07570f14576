// Purpose: the processors that a worker may use, by its slot: an even share of the cores, those of one NUMA node, or
// those of its GPU's node.
//
// Pure, except for processors_of_worker(). Thread: any. Errors: if the machine does not provide enough information, or
// there is nothing to choose from, nothing is bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/machine_layout.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// kGpuNuma: its GPU's node if that is known, otherwise no binding; kNuma: otherwise an even share of the nodes.
enum class Binding : std::uint8_t { kNone, kCore, kNuma, kGpuNuma };

struct SlotPlace {
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;                     // on the host
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES, if it is set
};

// Ascending; empty: all that the agent may use. If there are more slots than cores or nodes, slots share one.
std::vector<int> processors_of_slot(Binding binding, const SlotPlace& place, const MachineLayout& machine);

// "none", "core", "numa" or "gpu-numa"; an error for any other text.
Result<Binding> parse_binding(const std::string& word);

// From a worker's environment: ELASTICTRAIN_SLOT, ELASTICTRAIN_SLOTS and CUDA_VISIBLE_DEVICES.
SlotPlace slot_place(const std::vector<std::string>& environment);

// processors_of_slot() on this machine.
Result<std::vector<int>> processors_of_worker(const std::string& binding, const std::vector<std::string>& environment);

}  // namespace elastictrain::launcher
