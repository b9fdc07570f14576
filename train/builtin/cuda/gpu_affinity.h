// Purpose: keeps a worker on the processors beside its GPU, so that what it copies does not cross the machine.
//
// Thread: bind_near() binds the calling thread and those that it starts later. Failure: where the machine does not say
// which processors are near, or the user, a launcher or a container has chosen some already, nothing is bound.
// Source: Linux, Documentation/ABI/testing/sysfs-bus-pci (numa_node) and sysfs-devices-node (cpulist).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/device/device.h"

namespace elastictrain::train {

// "0-3,8" as numbers, in their order; empty for text that is not such a list.
std::vector<int> parse_processor_list(std::string_view text);

// Those beside the PCI device, where `allowed`, which this thread may use, are all that are there; else none.
std::vector<int> processors_near(std::string bus_id, const std::vector<int>& allowed, const std::string& sysfs);

void bind_near(const device::Device& device);

}  // namespace elastictrain::train
