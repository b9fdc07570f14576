#include "launcher/agent/binding.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/agent/host_facts.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using namespace elastictrain::launcher;

namespace {

using Processors = std::vector<int>;

// A machine as Linux describes it: `nodes` of `cores_per_node` cores with two threads, whose numbers go on over all
// nodes before the second threads begin.
class Files {
 public:
  explicit Files(int nodes = 2, int cores_per_node = 2) {
    const int cores = nodes * cores_per_node;
    for (int node = 0; node < nodes; ++node) {
      const int first = node * cores_per_node;
      const int last = first + cores_per_node - 1;
      write("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist",
            range(first, last) + "," + range(first + cores, last + cores));
    }
    for (int i = 0; i < 2 * cores; ++i) {
      write("/sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list",
            std::to_string(i % cores) + "," + std::to_string(i % cores + cores));
    }
  }

  // As of the driver 550, with its tabs and blanks.
  void add_gpu(const std::string& bus_id, int minor, const std::string& uuid, const std::string& node) const {
    write("/proc/driver/nvidia/gpus/" + bus_id + "/information",
          "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t " + uuid + "\nBus Location: \t " + bus_id +
              "\nDevice Minor: \t " + std::to_string(minor) + "\nGPU Excluded:\t No");
    write("/dev/nvidia" + std::to_string(minor), "");
    write("/sys/bus/pci/devices/" + bus_id + "/numa_node", node);
  }
  void forbid(int minor) const { std::filesystem::remove(folder_.path + "/dev/nvidia" + std::to_string(minor)); }

  MachineLayout read(const Processors& allowed = {0, 1, 2, 3, 4, 5, 6, 7}) const {
    return read_machine_layout(allowed, folder_.path);
  }
  const std::string& root() const { return folder_.path; }

 private:
  static std::string range(int first, int last) { return std::to_string(first) + "-" + std::to_string(last); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.path + path).parent_path());
    std::ofstream(folder_.path + path) << text << "\n";
  }
  test::TemporaryDirectory folder_;
};

// The GPU of the lowest bus number is on the second node, as on many boards.
struct FilesWithGpus : Files {
  FilesWithGpus() {
    add_gpu("0000:3b:00.0", 1, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "1");
    add_gpu("0000:5c:00.0", 0, "GPU-04ca4d32-3f09-44ed-9a26-f2a1b0de5ab7", "0");
    add_gpu("0000:5d:00.0", 2, "GPU-2a5e64bf-7a3f-4fa5-8a7c-22b1d2d5d6f1", "-1");
  }
};

Processors by_core(std::uint32_t slot, std::uint32_t slots, const MachineLayout& machine) {
  return processors_of_slot(Binding::kCore, {slot, slots, {}}, machine);
}

Processors by_node(std::uint32_t slot, std::uint32_t slots, const MachineLayout& machine) {
  return processors_of_slot(Binding::kNuma, {slot, slots, {}}, machine);
}

const Processors kFirstNode{0, 1, 4, 5};
const Processors kSecondNode{2, 3, 6, 7};

}  // namespace

TEST_CASE("processor lists are ranges and single numbers") {
  CHECK(parse_processor_list("0-2,5,7-8") == Processors{0, 1, 2, 5, 7, 8});
  CHECK(parse_processor_list("") == Processors{});
  for (const char* bad : {"a", "3-1", "-1", "1-", "1,,2", "0-99999999", "1 2"}) {
    CAPTURE(bad);
    CHECK(parse_processor_list(bad).empty());
  }
}

TEST_CASE("cores are shared out evenly, whole, and neighbours on a node first") {
  const MachineLayout machine = Files().read();
  CHECK(by_core(0, 4, machine) == Processors{0, 4});
  CHECK(by_core(1, 4, machine) == Processors{1, 5});
  CHECK(by_core(2, 4, machine) == Processors{2, 6});
  CHECK(by_core(0, 2, machine) == kFirstNode);
  CHECK(by_core(1, 2, machine) == kSecondNode);
  CHECK(by_core(1, 3, machine) == Processors{1, 5});
  CHECK(by_core(2, 3, machine) == kSecondNode);
}

TEST_CASE("the shares of all slots are disjoint and leave no processor out") {
  const Files files(2, 7);
  Processors all;
  for (int i = 0; i < 28; ++i) all.push_back(i);
  const MachineLayout machine = files.read(all);
  for (std::uint32_t slots = 2; slots <= 14; ++slots) {
    CAPTURE(slots);
    Processors given;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      const Processors share = by_core(slot, slots, machine);
      given.insert(given.end(), share.begin(), share.end());
    }
    std::sort(given.begin(), given.end());
    CHECK(given == all);
  }
}

TEST_CASE("slots beyond the cores share them, and the only slot is not bound") {
  const MachineLayout machine = Files().read();
  CHECK(by_core(4, 6, machine) == Processors{0, 4});
  CHECK(by_core(5, 2, machine) == Processors{1, 5});
  CHECK(by_core(0, 1, machine) == Processors{});
}

TEST_CASE("processors that the agent may not use are given to no worker") {
  const MachineLayout machine = Files().read({1, 2, 6});
  CHECK(by_core(0, 2, machine) == Processors{1});
  CHECK(by_core(1, 2, machine) == Processors{2, 6});
  CHECK(by_node(1, 2, machine) == Processors{2, 6});
}

TEST_CASE("nodes are shared out like cores") {
  const MachineLayout machine = Files().read();
  CHECK(by_node(0, 4, machine) == kFirstNode);
  CHECK(by_node(1, 4, machine) == kSecondNode);
  CHECK(by_node(2, 4, machine) == kFirstNode);
  CHECK(by_node(0, 1, machine) == Processors{});
  const MachineLayout large = Files(4, 1).read();
  CHECK(by_node(0, 2, large) == Processors{0, 1, 4, 5});
  CHECK(by_node(1, 2, large) == Processors{2, 3, 6, 7});
}

TEST_CASE("a machine of one node, or a cpuset within one, leaves nothing to choose") {
  CHECK(by_node(1, 2, Files(1, 4).read()) == Processors{});
  CHECK(by_node(1, 2, Files().read({2, 3})) == Processors{});
}

TEST_CASE("a slot's GPU decides its node, where that is known and the agent may use it") {
  const FilesWithGpus files;
  const auto near = [&](std::uint32_t slot, const MachineLayout& machine) { return by_node(slot, 4, machine); };
  CHECK(near(0, files.read()) == kSecondNode);
  CHECK(near(1, files.read()) == kFirstNode);
  CHECK(near(2, files.read()) == kFirstNode);  // not known: an even share
  CHECK(near(3, files.read()) == kSecondNode);
  CHECK(near(0, files.read({0, 1})) == Processors{});
}

TEST_CASE("near its GPU means nothing where none is known") {
  const auto near = [](std::uint32_t slot, const MachineLayout& machine) {
    return processors_of_slot(Binding::kGpuNuma, {slot, 4, {}}, machine);
  };
  CHECK(near(1, FilesWithGpus().read()) == kFirstNode);
  CHECK(near(2, FilesWithGpus().read()) == Processors{});
  CHECK(near(1, Files().read()) == Processors{});
}

TEST_CASE("the GPU of a slot is that of its number among those that the worker sees") {
  const MachineLayout machine = FilesWithGpus().read();
  const auto seen = [&](std::uint32_t slot, const std::string& visible) {
    return processors_of_slot(Binding::kGpuNuma, {slot, 4, visible}, machine);
  };
  CHECK(seen(0, "1,0") == kFirstNode);
  CHECK(seen(1, "1,0") == kSecondNode);
  CHECK(seen(2, "1,0") == kFirstNode);
  CHECK(seen(0, "GPU-8932f937") == kSecondNode);
  for (const char* unknown : {"", "7", "GPU-ffff", "MIG-8932f937", "-1", "1x"}) {
    CAPTURE(unknown);
    CHECK(seen(0, unknown) == Processors{});
  }
}

TEST_CASE("a worker of several processes is near all of its GPUs") {
  const MachineLayout machine = FilesWithGpus().read();
  const auto near = [&](const std::string& visible) {
    return processors_of_slot(Binding::kGpuNuma, {1, 4, visible, 2}, machine);
  };
  CHECK(near("1,1") == kFirstNode);
  CHECK(near("0,0") == kSecondNode);
  CHECK(near("0,1") == Processors{});
  CHECK(near("0,2") == Processors{});  // the second one's node is not known
}

TEST_CASE("GPUs that a batch system gave to others do not count") {
  const FilesWithGpus files;
  files.forbid(1);
  CHECK(driver_gpus(files.root()).size() == 3);
  CHECK(driver_gpus(files.root())[0].model == "NVIDIA H100 80GB HBM3");
  CHECK(usable_driver_gpus(files.root()).size() == 2);
  CHECK(by_node(0, 2, files.read()) == kFirstNode);
}

TEST_CASE("nothing is bound where nothing is asked for or known") {
  CHECK(processors_of_slot(Binding::kNone, {0, 2, {}}, Files().read()) == Processors{});
  CHECK(by_core(0, 2, MachineLayout{}) == Processors{});
}

TEST_CASE("a machine that describes neither nodes nor cores has a core for every processor, on one node") {
  const test::TemporaryDirectory nothing;
  const MachineLayout machine = read_machine_layout({3, 5}, nothing.path);
  CHECK(by_core(0, 2, machine) == Processors{3});
  CHECK(by_core(1, 2, machine) == Processors{5});
  CHECK(by_node(1, 2, machine) == Processors{});
}

TEST_CASE("an agent takes the word and the slot as it finds them in a worker's environment") {
  CHECK(processors_of_worker("none", {})->empty());
  CHECK(processors_of_worker("core", {"ELASTICTRAIN_SLOT=0", "ELASTICTRAIN_SLOTS=1"})->empty());
  const auto bad = processors_of_worker("socket", {});
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().message == "ELASTICTRAIN_CPU_BIND=socket is not one of none, core, numa and gpu-numa");
}
