#include "launcher/agent/host_facts.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "launcher/process/missing_program.h"
#include "launcher/process/process_identity.h"
#include "launcher/python_command.h"
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

std::string machine_key() {
  const std::string boot = boot_id();
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  if (boot.empty() || error) return "";
  return boot + "." + network.string() + "." + std::to_string(::geteuid());
}

namespace {

std::uint64_t memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<std::string> gpu_models() {
  std::vector<std::string> models;
  for (const DriverGpu& gpu : driver_gpus()) models.push_back(gpu.model.empty() ? "GPU" : gpu.model);
  return models;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …"
std::string kernel_driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return {};
}

bool is_link_local(const sockaddr* address) {
  if (address->sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t bytes = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int failed = ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? std::string(text.data()) : std::string();
}

std::string join(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
  return static_cast<std::uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

protocol::HostFacts host_facts() {
  protocol::HostFacts facts;
  facts.binary_version = ELASTICTRAIN_VERSION;
  facts.cores = usable_cores();
  facts.memory_bytes = memory_bytes();
  facts.gpus = gpu_models();
  facts.kernel_driver = kernel_driver();
  facts.wall_clock_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return facts;
}

std::string interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* own = entry->ifa_addr;
    if (own == nullptr || (own->sa_family != AF_INET && own->sa_family != AF_INET6)) continue;
    if (numeric(own) == address) return entry->ifa_name;
  }
  return {};
}

Result<std::vector<std::string>> interface_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return Error{ErrorCode::kIo, "cannot list the network interfaces"};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::set<std::string> names;
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      names.insert(entry->ifa_name);
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || interface != entry->ifa_name) continue;
      if (!is_link_local(entry->ifa_addr)) addresses.push_back(numeric(entry->ifa_addr));
    }
  }
  if (!addresses.empty()) return addresses;
  const bool exists = names.contains(interface);
  return Error{ErrorCode::kUnavailable, host_name() + " has no " + (exists ? "address on " : "") +
                                            "network interface \"" + interface + "\"; there are: " + join(names)};
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnBinary = "@self";

// "SCRIPT", where the program is an interpreter that reads it.
std::optional<std::string> script_of(const std::vector<std::string>& argv) {
  const auto python = python_command(argv);
  if (!python || python->program.empty() || python->program.front() == "-m") return std::nullopt;
  return python->program.front();
}

std::string unreadable(const std::vector<std::string>& files, const fs::path& directory) {
  for (const std::string& file : files) {
    const fs::path path = directory / file;
    if (::access(path.c_str(), R_OK) == 0) continue;
    const std::string where = fs::path(file).is_absolute() ? "" : " in " + directory.string();
    return file + where + " cannot be read: " + std::strerror(errno);
  }
  return "";
}

// "version = 3.11.2" of the environment's own file; empty: this is none.
std::string version_of_environment(const fs::path& interpreter) {
  std::ifstream settings(interpreter.parent_path().parent_path() / "pyvenv.cfg");
  for (std::string line; std::getline(settings, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with("version") || equals == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", equals + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::string describe_interpreter(const fs::path& interpreter) {
  std::error_code failed;
  const fs::path real = fs::canonical(interpreter, failed);
  if (failed) return "";
  const std::string version = version_of_environment(interpreter);
  return real.string() + (version.empty() ? "" : ", environment of Python " + version);
}

}  // namespace

ProgramFacts program_facts(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                           const std::string& directory, const std::vector<std::string>& files) {
  ProgramFacts facts;
  if (argv.empty()) return facts;
  const bool is_own = argv.front() == kOwnBinary;
  const std::string program = is_own ? "/proc/self/exe" : argv.front();
  if (const auto missing = find_missing_program(program, environment, directory)) {
    facts.problem = missing->text;
    facts.exit_status = missing->exit_status;
    return facts;
  }
  std::vector<std::string> all = files;
  if (const auto script = script_of(argv)) all.push_back(*script);
  std::error_code failed;
  const fs::path start = directory.empty() ? fs::current_path(failed) : fs::path(directory);
  facts.missing_file = unreadable(all, start);
  if (!is_own && python_command(argv)) {
    facts.interpreter = describe_interpreter(find_program(argv.front(), environment, directory));
  }
  return facts;
}

}  // namespace elastictrain::launcher
