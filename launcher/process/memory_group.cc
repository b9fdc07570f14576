#include "launcher/process/memory_group.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace elastictrain::launcher {
namespace {

// Version 1 has no word for "none": its largest number, rounded down to a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// One of a mountinfo line: "31 24 0:27 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory".
struct Mount {
  std::string group;  // that is mounted
  std::string directory;
  std::string type;
  std::string options;
};

std::optional<Mount> parse_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  Mount mount;
  std::string skipped;
  std::istringstream(line) >> skipped >> skipped >> skipped >> mount.group >> mount.directory;
  std::istringstream(line.substr(dash + 3)) >> mount.type >> skipped >> mount.options;
  return mount;
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

std::optional<Mount> find_mount(const std::string& root, bool first_version) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    auto mount = parse_mount(line);
    if (!mount) continue;
    if (mount->type == (first_version ? "cgroup" : "cgroup2") && (!first_version || has_word(mount->options, "memory")))
      return mount;
  }
  return std::nullopt;
}

// "4:memory:/job" of version 1, "0::/job" of version 2.
std::optional<std::string> path_of(pid_t pid, const std::string& root, bool first_version) {
  std::ifstream file(root + "/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (first_version ? has_word(controllers, "memory") : controllers.empty()) return line.substr(second + 1);
  }
  return std::nullopt;
}

// From the group up to the mount. A container may see its own group as the mount, by a path of the machine.
std::vector<std::string> directories_of(const Mount& mount, std::string path, const std::string& root) {
  const bool is_below = path == mount.group || path.starts_with(mount.group + "/");
  if (mount.group != "/" && is_below) path.erase(0, mount.group.size());
  if (path == "/" || path.starts_with("/..")) path.clear();
  std::vector<std::string> directories;
  for (; path.starts_with('/'); path.erase(path.rfind('/'))) directories.push_back(root + mount.directory + path);
  directories.push_back(root + mount.directory);
  return directories;
}

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::of(pid_t pid, const std::string& root) {
  for (const Version version : {Version::k1, Version::k2}) {
    const bool is_first = version == Version::k1;
    const auto mount = find_mount(root, is_first);
    const auto path = mount ? path_of(pid, root, is_first) : std::nullopt;
    if (path) return MemoryGroup(version, directories_of(*mount, *path, root));
  }
  return std::nullopt;
}

std::uint64_t MemoryGroup::kills() const {
  std::ifstream file(directories_.front() + (version_ == Version::k1 ? "/memory.oom_control" : "/memory.events"));
  std::string value;
  for (std::string name; file >> name >> value;) {
    if (name == "oom_kill") return number_in(value).value_or(0);
  }
  return 0;
}

std::uint64_t MemoryGroup::limit_bytes() const {
  std::uint64_t least = kNoLimit;
  for (const std::string& directory : directories_) {
    std::ifstream file(directory + (version_ == Version::k1 ? "/memory.limit_in_bytes" : "/memory.max"));
    std::string value;
    file >> value;
    least = std::min(least, number_in(value).value_or(kNoLimit));
  }
  return least == kNoLimit ? 0 : least;
}

}  // namespace elastictrain::launcher
