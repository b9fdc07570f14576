#include "train/builtin/cuda/gpu_affinity.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

using namespace elastictrain::train;

namespace {

// A machine of two nodes as Linux describes it, with a GPU on the second.
class Machine {
 public:
  Machine() {
    char path[] = "/tmp/elastictrain-sysfs-XXXXXX";
    REQUIRE(::mkdtemp(path) != nullptr);
    root_ = path;
    write("/devices/system/cpu/online", "0-7");
    write("/devices/system/node/node0/cpulist", "0-1,4-5");
    write("/devices/system/node/node1/cpulist", "2-3,6-7");
    write("/bus/pci/devices/0000:3b:00.0/numa_node", "1");
    write("/bus/pci/devices/0000:5c:00.0/numa_node", "-1");
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  const std::string& root() const { return root_; }

 private:
  void write(const std::string& path, const std::string& line) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << line << "\n";
  }
  std::string root_;
};

const std::vector<int> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace

TEST_CASE("processor lists are ranges and single numbers") {
  CHECK(parse_processor_list("0-2,5,7-8") == std::vector<int>{0, 1, 2, 5, 7, 8});
  CHECK(parse_processor_list("") == std::vector<int>{});
  for (const char* bad : {"a", "3-1", "-1", "1-", "1,,2", "0-99999999", "1 2"}) {
    CAPTURE(bad);
    CHECK(parse_processor_list(bad).empty());
  }
}

TEST_CASE("a worker is bound to the processors of its GPU's node") {
  const Machine machine;
  CHECK(processors_near("0000:3B:00.0", kAll, machine.root()) == std::vector<int>{2, 3, 6, 7});
}

TEST_CASE("a choice that somebody else made is left alone") {
  const Machine machine;
  CHECK(processors_near("0000:3b:00.0", {0, 1, 2, 3}, machine.root()).empty());
}

TEST_CASE("where the machine does not say what is near, nothing is bound") {
  const Machine machine;
  CHECK(processors_near("0000:5c:00.0", kAll, machine.root()).empty());
  CHECK(processors_near("0000:99:00.0", kAll, machine.root()).empty());
  CHECK(processors_near("0000:3b:00.0", kAll, machine.root() + "/absent").empty());
}
