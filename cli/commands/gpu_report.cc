#include "cli/commands/gpu_report.h"

#include <cstdlib>
#include <vector>

#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "launcher/nccl_settings.h"
#include "train/comm/mpi/mpi_library.h"
#include "train/comm/nccl/known_issues.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/device/device.h"
#include "train/device/kernel_module.h"

namespace elastictrain::cli {
namespace {

std::string describe(const device::CudaLibrary& cuda, int ordinal) {
  device::CudaDevice gpu = 0;
  char name[128] = {};
  char bus[32] = {};
  std::size_t bytes = 0;
  int major = 0;
  int minor = 0;
  if (cuda.device_get(&gpu, ordinal) != device::kCudaSuccess) return "does not answer";
  cuda.device_name(name, sizeof name, gpu);
  cuda.device_bus_id(bus, sizeof bus, gpu);
  cuda.device_memory(&bytes, gpu);
  cuda.device_attribute(&major, device::kAttributeMajor, gpu);
  cuda.device_attribute(&minor, device::kAttributeMinor, gpu);
  return std::string(name) + ", " + format_bytes(bytes) + ", architecture " + std::to_string(major) + "." +
         std::to_string(minor) + ", at " + bus;
}

// Pairs that go through the host's memory.
std::string peer_access(const device::CudaLibrary& cuda, int count) {
  std::string apart;
  for (int from = 0; from < count; ++from) {
    for (int to = from + 1; to < count; ++to) {
      int can = 0;
      cuda.can_access_peer(&can, from, to);
      if (can == 0) apart += (apart.empty() ? "" : ", ") + std::to_string(from) + "-" + std::to_string(to);
    }
  }
  return apart.empty() ? "every pair" : "not between " + apart + "; those copy through the host";
}

void add_devices(Table& table, const device::CudaLibrary& cuda) {
  int version = 0;
  cuda.driver_version(&version);
  table.add_row({"driver", "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + ", " +
                               cuda.path});
  const auto count = device::Device::count();
  if (!count) return table.add_row({"GPUs", count.error().message});
  for (int i = 0; i < *count; ++i) table.add_row({"GPU " + std::to_string(i), describe(cuda, i)});
  if (*count > 1) table.add_row({"peer access", peer_access(cuda, *count)});
}

void add_nccl(Table& table) {
  const auto nccl = comm::NcclLibrary::get();
  if (!nccl) return table.add_row({"NCCL", nccl.error().message});
  table.add_row({"NCCL", (*nccl)->version_text() + ", " + (*nccl)->path});
  for (const std::string& issue : comm::known_nccl_issues((*nccl)->version)) table.add_row({"known", issue});
}

void add_mpi(Table& table) {
  const auto mpi = comm::MpiLibrary::open();
  table.add_row({"MPI", mpi.ok() ? (*mpi)->version() + "; runs do not use it yet" : mpi.error().message});
}

// Before the driver is opened: that sets what it needs in this process, too.
std::vector<std::string> workers_get(const std::string& interface) {
  std::vector<std::string> lines;
  for (const auto& setting : launcher::nccl_settings(interface, "127.0.0.1:<a port of its own>")) {
    const char* present = std::getenv(setting.name.c_str());
    const std::string value = present != nullptr ? std::string(present) + " (yours)" : setting.value;
    lines.push_back(setting.name + "=" + value + ": " + setting.reason);
  }
  return lines;
}

void add_settings(Table& table, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) table.add_row({"workers get", setting});
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking != nullptr && std::string(blocking) == "1") {
    table.add_row(
        {"warning", "CUDA_LAUNCH_BLOCKING=1 makes a build beside training wait forever (nccl#750); unset it"});
  }
}

}  // namespace

std::string render_gpus(const std::string& interface) {
  Table table({{"GPUs of this machine, and what programs there can load"}, {""}});
  const auto settings = workers_get(interface);
  const auto cuda = device::CudaLibrary::get();
  if (cuda) add_devices(table, **cuda);
  if (!cuda) table.add_row({"driver", cuda.error().message});
  const auto compiler = device::find_kernel_compiler();
  table.add_row({"NVRTC", compiler.ok() ? "found" : compiler.error().message});
  add_nccl(table);
  add_mpi(table);
  if (cuda) add_settings(table, settings);
  return table.render();
}

}  // namespace elastictrain::cli
