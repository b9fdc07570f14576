// The NCCL settings of workers, unless the user has set them.
#include "launcher/nccl_settings.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace elastictrain::launcher {
namespace {

bool has(const std::vector<std::string>& environment, const std::string& entry) {
  return std::find(environment.begin(), environment.end(), entry) != environment.end();
}

TEST_CASE("a worker gets the settings of a job that swaps communicators") {
  const auto environment = with_nccl_settings({"PATH=/bin"}, "", "127.0.0.1:4711");
  CHECK(has(environment, "PATH=/bin"));
  CHECK(has(environment, "CUDA_MODULE_LOADING=LAZY"));
  CHECK(has(environment, "NCCL_RUNTIME_CONNECT=0"));
  CHECK(has(environment, "NCCL_SOCKET_RETRY_SLEEP_MSEC=20"));
  CHECK(has(environment, "NCCL_LAUNCH_ORDER_IMPLICIT=1"));
  CHECK(has(environment, "NCCL_RAS_ADDR=127.0.0.1:4711"));
  CHECK(environment.size() == 6);
}

TEST_CASE("what the user has set stays, and nothing is set twice") {
  const auto environment = with_nccl_settings({"CUDA_MODULE_LOADING=EAGER", "NCCL_SOCKET_IFNAME=ib0"}, "eth0", "");
  CHECK(has(environment, "CUDA_MODULE_LOADING=EAGER"));
  CHECK_FALSE(has(environment, "CUDA_MODULE_LOADING=LAZY"));
  CHECK(has(environment, "NCCL_SOCKET_IFNAME=ib0"));
  CHECK(environment.size() == 5);
}

TEST_CASE("the user's settings of NCCL's RAS service are kept") {
  CHECK(with_nccl_settings({"NCCL_RAS_ENABLE=1"}, "", "127.0.0.1:4711").size() == 5);
  const auto environment = with_nccl_settings({"NCCL_RAS_ADDR=localhost:28028"}, "", "127.0.0.1:4711");
  CHECK(has(environment, "NCCL_RAS_ADDR=localhost:28028"));
  CHECK(environment.size() == 5);
}

TEST_CASE("the run's interface is NCCL's, by its full name") {
  CHECK(has(with_nccl_settings({}, "eth0", ""), "NCCL_SOCKET_IFNAME==eth0"));
}

TEST_CASE("every setting has a reason") {
  for (const auto& setting : nccl_settings("eth0", "127.0.0.1:4711")) CHECK(setting.reason.size() > 20);
}

}  // namespace
}  // namespace elastictrain::launcher
