#include "launcher/agent/binding.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/process/process.h"

namespace elastictrain::launcher {
namespace {

std::string visible_to(const std::string& slot, const std::string& devices) {
  const auto environment = with_own_mig_instance({"ELASTICTRAIN_SLOT=" + slot, "CUDA_VISIBLE_DEVICES=" + devices});
  return value_of(environment, "CUDA_VISIBLE_DEVICES").value_or("none");
}

TEST_CASE("the worker of each slot sees a MIG instance of its own") {
  CHECK(visible_to("0", "MIG-a,MIG-b,MIG-c") == "MIG-a");
  CHECK(visible_to("2", "MIG-a,MIG-b,MIG-c") == "MIG-c");
  CHECK(visible_to("4", "MIG-a,MIG-b,MIG-c") == "MIG-b");
}

TEST_CASE("what is no list of MIG instances stays as it is") {
  for (const char* devices : {"0,1,2,3", "GPU-1,GPU-2", "MIG-a", "MIG-a,0", ""}) {
    CAPTURE(devices);
    CHECK(visible_to("1", devices) == devices);
  }
  CHECK(with_own_mig_instance({"ELASTICTRAIN_SLOT=1"}).size() == 1);
}

std::string visible_to_replica(const std::string& slot, std::vector<std::string> others, std::size_t gpus = 8) {
  others.push_back("ELASTICTRAIN_SLOT=" + slot);
  return value_of(with_gpus_of_slot(std::move(others), gpus), "CUDA_VISIBLE_DEVICES").value_or("none");
}

TEST_CASE("a worker of several processes sees as many GPUs, by its slot") {
  const std::vector<std::string> pairs{"ELASTICTRAIN_PER_REPLICA=2"};
  CHECK(visible_to_replica("0", pairs) == "0,1");
  CHECK(visible_to_replica("3", pairs) == "6,7");
  CHECK(visible_to_replica("4", pairs) == "0,1");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=3"}) == "3,4,5");
  CHECK(visible_to_replica("2", {"ELASTICTRAIN_PER_REPLICA=3"}) == "0,1,2");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2", "CUDA_VISIBLE_DEVICES=GPU-a,5,GPU-b,7"}) == "GPU-b,7");
  const std::vector<std::string> over_two_hosts{"ELASTICTRAIN_PER_REPLICA=4", "ELASTICTRAIN_REPLICA_HOSTS=2"};
  CHECK(visible_to_replica("0", over_two_hosts) == "0,1");
  CHECK(visible_to_replica("3", over_two_hosts) == "6,7");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2", "ELASTICTRAIN_REPLICA_HOSTS=2"}) == "none");
}

TEST_CASE("a worker of one process, or with fewer GPUs than processes, sees what there is") {
  CHECK(visible_to_replica("1", {}) == "none");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=1"}) == "none");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2"}, 1) == "none");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2"}, 0) == "none");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2", "CUDA_VISIBLE_DEVICES=3"}) == "3");
  CHECK(visible_to_replica("1", {"ELASTICTRAIN_PER_REPLICA=2", "CUDA_VISIBLE_DEVICES="}) == "");
}

}  // namespace
}  // namespace elastictrain::launcher
