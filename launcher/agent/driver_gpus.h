// Purpose: the GPUs in the list of NVIDIA's kernel driver, which needs no library of the vendor.
//
// Thread: any; reads files below `root`. Errors: no GPUs; fields that the driver does not report stay empty.
// Source: the driver's own files, /proc/driver/nvidia/gpus/*/information, and the device files /dev/nvidia*.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

struct DriverGpu {
  std::string bus_id;  // "0000:3b:00.0", as sysfs names it
  std::string model;
  std::string uuid;  // "GPU-8932f937-..."
  int minor = -1;    // of /dev/nvidia*
};

// By bus id.
std::vector<DriverGpu> driver_gpus(const std::string& root = "");

// Those whose device file this process may open: a batch system withholds other GPUs from a job through file
// permissions.
std::vector<DriverGpu> usable_driver_gpus(const std::string& root = "");

}  // namespace elastictrain::launcher
