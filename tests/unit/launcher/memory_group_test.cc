#include "launcher/process/memory_group.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/skip.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using launcher::MemoryGroup;

namespace {

constexpr pid_t kPid = 4321;
constexpr std::uint64_t kMiB = 1024 * 1024;

// The kernel's files, as they look with one version or both.
class Kernel {
 public:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.path + path).parent_path());
    std::ofstream(folder_.path + path) << text;
  }
  void mount_first(const std::string& group = "/") const {
    write("/proc/self/mountinfo",
          "24 1 0:22 / / rw - ext4 /dev/vda rw\n"
          "30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
          "31 24 0:27 " +
              group +
              " /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
              "33 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  void mount_second() const {
    write("/proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void place(const std::string& lines) const { write("/proc/" + std::to_string(kPid) + "/cgroup", lines); }
  std::optional<MemoryGroup> group() const { return MemoryGroup::of(kPid, folder_.path); }

 private:
  test::TemporaryDirectory folder_;
};

// A group of this machine's kernel with a limit, for processes of the test.
class RealGroup {
 public:
  static std::unique_ptr<RealGroup> make(std::uint64_t limit_bytes) {
    for (const auto& [base, file] :
         {std::pair{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup", "/memory.max"}}) {
      const std::string path = std::string(base) + "/elastictrain-test-" + std::to_string(::getpid());
      std::error_code failed;
      if (!std::filesystem::create_directory(path, failed)) continue;
      auto group = std::unique_ptr<RealGroup>(new RealGroup(path));
      std::ofstream limit(path + file);
      limit << limit_bytes << std::flush;
      if (limit) return group;
    }
    return nullptr;
  }
  ~RealGroup() { ::rmdir(path_.c_str()); }

  // By the process itself.
  bool enter() const {
    std::ofstream file(path_ + "/cgroup.procs");
    file << ::getpid() << std::flush;
    return static_cast<bool>(file);
  }

 private:
  explicit RealGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

TEST_CASE("version 1: the group counts, and the least limit above it holds") {
  Kernel kernel;
  kernel.mount_first();
  kernel.place("12:cpu,cpuacct:/user\n4:memory:/jobs/7/step 0\n0::/\n");
  const std::string directory = "/sys/fs/cgroup/memory/jobs/7/step 0";
  kernel.write(directory + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  kernel.write(directory + "/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.write("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "419430400\n");
  kernel.write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "838860800\n");
  const auto group = kernel.group();
  REQUIRE(group.has_value());
  CHECK(group->kills() == 3);
  CHECK(group->limit_bytes() == 400 * kMiB);
  kernel.write(directory + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  CHECK(group->kills() == 4);
}

TEST_CASE("version 2, and no limit at all") {
  Kernel kernel;
  kernel.mount_second();
  kernel.place("0::/system.slice/job.scope\n");
  const std::string directory = "/sys/fs/cgroup/system.slice/job.scope";
  kernel.write(directory + "/memory.events", "low 0\nhigh 0\nmax 17\noom 2\noom_kill 2\noom_group_kill 0\n");
  kernel.write(directory + "/memory.max", "max\n");
  REQUIRE(kernel.group().has_value());
  CHECK(kernel.group()->kills() == 2);
  CHECK(kernel.group()->limit_bytes() == 0);
  kernel.write(directory + "/memory.max", "1048576\n");
  CHECK(kernel.group()->limit_bytes() == kMiB);
}

TEST_CASE("a container sees its own group as the mount, by the machine's path") {
  Kernel kernel;
  kernel.mount_first("/docker/ab");
  kernel.place("4:memory:/docker/ab\n");
  kernel.write("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill 5\n");
  kernel.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
  REQUIRE(kernel.group().has_value());
  CHECK(kernel.group()->kills() == 5);
  CHECK(kernel.group()->limit_bytes() == kMiB);
}

TEST_CASE("without a controller, a process or its files there is no group, or nothing is counted") {
  Kernel kernel;
  CHECK_FALSE(kernel.group().has_value());
  kernel.mount_second();
  CHECK_FALSE(kernel.group().has_value());
  kernel.place("0::/gone\n");
  REQUIRE(kernel.group().has_value());
  CHECK(kernel.group()->kills() == 0);
  CHECK(kernel.group()->limit_bytes() == 0);
}

TEST_CASE("the kernel's own files count a process that it ends for want of memory") {
  const auto limited = RealGroup::make(32 * kMiB);
  if (!limited) return tests::skip_aloud("no cgroup with a limit can be made here");
  int ready[2];
  int go[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(go) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char word = limited->enter() ? 'y' : 'n';
    if (::write(ready[1], &word, 1) != 1 || ::read(go[0], &word, 1) != 1) ::_exit(1);
    std::string hog(512 * kMiB, '\0');
    for (std::size_t at = 0; at < hog.size(); at += 1024) hog[at] = 'x';
    ::_exit(0);
  }
  char word = 'n';
  REQUIRE(::read(ready[0], &word, 1) == 1);
  CHECK(word == 'y');
  const auto group = MemoryGroup::of(child);
  REQUIRE(group.has_value());
  CHECK(group->kills() == 0);
  CHECK(group->limit_bytes() == 32 * kMiB);
  REQUIRE(::write(go[1], &word, 1) == 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(group->kills() == 1);
  for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
}
