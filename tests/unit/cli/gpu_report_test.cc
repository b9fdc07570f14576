// The report of `check` about several hosts' GPUs.
#include "cli/commands/plan/check_report.h"
#include "tests/support/contains.h"

#include <doctest/doctest.h>

namespace elastictrain::cli {
namespace {

HostReport host(const std::string& name, std::uint32_t nccl = 22809, const std::string& driver = "CUDA 13.0") {
  HostReport report;
  report.host = name;
  report.reached = true;
  report.interface = "eth0";
  report.addresses = {"10.0.0.1"};
  report.accelerators.driver = driver + ", /usr/lib/libcuda.so.1";
  report.accelerators.gpus = {{"H100", 80'000'000'000, 9, 0, "bus of " + name}};
  report.accelerators.cublas = "/usr/lib/libcublas.so.13";
  report.accelerators.nccl = "/usr/lib/libnccl.so.2";
  report.accelerators.nccl_version = nccl;
  report.accelerators.mpi_problem = "no MPI";
  return report;
}

HostReport without_gpu(const std::string& name) {
  HostReport report = host(name);
  report.accelerators = {};
  report.accelerators.driver_problem = "no driver";
  return report;
}

using elastictrain::test::contains;

TEST_CASE("hosts with the same findings are grouped, and no difference is reported") {
  const std::vector<HostReport> reports{host("a"), host("b")};
  const std::string text = render_gpus(reports);
  CHECK(contains(text, "GPUs of a, b,"));
  CHECK(contains(text, "2.28.9, /usr/lib/libnccl.so.2"));
  CHECK(contains(text, "/usr/lib/libcublas.so.13"));
  CHECK(contains(text, "H100, "));
  CHECK(contains(text, "architecture 9.0"));
  CHECK_FALSE(contains(text, "GPUs of b"));
  CHECK_FALSE(contains(text, "bus of"));
  CHECK(render_differences(reports) == "");
}

TEST_CASE("a single host's report includes the bus addresses of its GPUs") {
  CHECK(contains(render_gpus({host("a")}), "at bus of a"));
}

TEST_CASE("another NCCL is pointed out with its hosts") {
  const std::vector<HostReport> reports{host("a"), host("b", 22703), host("c")};
  CHECK(contains(render_gpus(reports), "GPUs of a, c,"));
  const std::string text = render_differences(reports);
  CHECK(contains(text, "NCCL differs: 2.27.3 on b; 2.28.9 on a, c."));
  CHECK_FALSE(contains(text, "driver"));
}

TEST_CASE("another driver is pointed out, that of the kernel too") {
  CHECK(contains(render_differences({host("a"), host("b", 22809, "CUDA 12.4")}),
                 "the driver differs: CUDA 12.4 on b; CUDA 13.0 on a."));
  auto older = host("b");
  older.kernel_driver = "550.54.15";
  CHECK(contains(render_differences({host("a"), older}), "CUDA 13.0 (550.54.15) on b"));
}

TEST_CASE("a host without a GPU among others is pointed out, and alone it is not") {
  const std::string text = render_differences({host("a"), without_gpu("b")});
  CHECK(contains(text, "no GPU on b, but on a."));
  CHECK_FALSE(contains(text, "differs"));
  CHECK(render_differences({without_gpu("a"), without_gpu("b")}) == "");
  CHECK(render_worker_settings({without_gpu("a")}, "") == "");
}

TEST_CASE("unlike GPUs and a missing cuBLAS are pointed out") {
  auto other = host("b");
  other.accelerators.gpus.push_back({"A100", 40'000'000'000, 8, 0, ""});
  other.accelerators.cublas.clear();
  const std::string text = render_differences({host("a"), other});
  CHECK(contains(text, "the GPU differs: 1 x A100, 1 x H100 on b; 1 x H100 on a."));
  CHECK(contains(text, "cuBLAS differs: absent on b; found on a."));
}

TEST_CASE("unreachable hosts and unknown values do not count as differences") {
  auto lost = host("b", 22703);
  lost.reached = false;
  auto unknown = without_gpu("c");
  unknown.accelerators.problem = "looking for GPUs took longer than 9 ms";
  CHECK(render_differences({host("a"), lost, unknown}) == "");
  const std::string text = render_gpus({host("a"), lost, unknown});
  CHECK(contains(text, "took longer"));
  CHECK_FALSE(contains(text, "2.27.3"));
}

TEST_CASE("many hosts are counted") {
  std::vector<HostReport> reports;
  for (int i = 0; i < 100; ++i) reports.push_back(host("n" + std::to_string(i)));
  CHECK(contains(render_gpus(reports), "GPUs of n0, n1, n2, n3 and 96 more,"));
}

TEST_CASE("each host's network and NCCL settings are listed") {
  auto chosen = host("b");
  chosen.nccl_interface = "=eth0";
  auto lacking = host("c");
  lacking.interface_problem = "c has no network interface \"eth0\"";
  const std::string text = render_networks({host("a"), chosen, lacking});
  CHECK(contains(text, "10.0.0.1"));
  CHECK(contains(text, "not set: NCCL chooses"));
  CHECK(contains(text, "=eth0"));
  CHECK(contains(text, "c has no network interface"));
}

TEST_CASE("a small /dev/shm is pointed out where several GPUs of a host talk over NCCL") {
  auto small = host("a");
  small.slots = 2;
  small.accelerators.gpus.push_back(small.accelerators.gpus.front());
  small.accelerators.shared_memory_free_bytes = 64'000'000;
  const std::string text = render_shortages({small});
  CHECK(contains(text, "/dev/shm of a has"));
  CHECK(contains(text, "--shm-size"));

  auto large = small;
  large.accelerators.shared_memory_free_bytes = 132'000'000;
  auto one_worker = small;
  one_worker.slots = 1;
  auto without_nccl = small;
  without_nccl.accelerators.nccl.clear();
  auto unknown = small;
  unknown.accelerators.shared_memory_free_bytes = 0;
  CHECK(render_shortages({large, one_worker, without_nccl, unknown}) == "");
}

TEST_CASE("how much of /dev/shm is free does not tell hosts apart") {
  auto used = host("b");
  used.accelerators.shared_memory_free_bytes = 1;
  CHECK(contains(render_gpus({host("a"), used}), "GPUs of a, b,"));
}

}  // namespace
}  // namespace elastictrain::cli
