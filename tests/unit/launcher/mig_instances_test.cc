#include "launcher/agent/binding.h"

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace elastictrain::launcher
