#include "launcher/agent/driver_gpus.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/text.h"

namespace elastictrain::launcher {
namespace {

constexpr std::string_view kBlanks = " \t";

// "GPU UUID: \t GPU-8932f937-..."
void read_line(const std::string& line, DriverGpu& gpu) {
  const std::size_t colon = line.find(':');
  const std::size_t start = colon == std::string::npos ? colon : line.find_first_not_of(kBlanks, colon + 1);
  if (start == std::string::npos) return;
  const std::string name = line.substr(0, colon);
  const std::string value = line.substr(start, line.find_last_not_of(kBlanks) - start + 1);
  if (name == "Model") gpu.model = value;
  if (name == "GPU UUID") gpu.uuid = value;
  if (name == "Device Minor") gpu.minor = parse_number<int>(value).value_or(-1);
}

}  // namespace

std::vector<DriverGpu> driver_gpus(const std::string& root) {
  std::vector<DriverGpu> gpus;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", failed)) {
    DriverGpu gpu;
    gpu.bus_id = entry.path().filename().string();
    std::ifstream file(entry.path() / "information");
    for (std::string line; std::getline(file, line);) read_line(line, gpu);
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const DriverGpu& a, const DriverGpu& b) { return a.bus_id < b.bus_id; });
  return gpus;
}

std::vector<DriverGpu> usable_driver_gpus(const std::string& root) {
  std::vector<DriverGpu> gpus = driver_gpus(root);
  std::erase_if(gpus, [&root](const DriverGpu& gpu) {
    return ::access((root + "/dev/nvidia" + std::to_string(gpu.minor)).c_str(), R_OK | W_OK) != 0;
  });
  return gpus;
}

}  // namespace elastictrain::launcher
