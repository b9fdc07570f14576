// The arguments of MPI's command, how its kind is recognized, and how an agent that it started finds its rank and its
// bootstrap.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/agent/agent.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/mpi/mpi_pool.h"
#include "launcher/mpi/mpi_rank.h"
#include "launcher/text.h"
#include "supervisor/protocol/limits.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::launcher {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

using elastictrain::test::contains;

using elastictrain::test::TemporaryDirectory;

protocol::AgentBootstrap bootstrap_of(std::uint32_t rank) {
  protocol::AgentBootstrap bootstrap;
  bootstrap.protocol_version = limits::kProtocolVersion;
  bootstrap.agent = AgentId{rank + 1};
  bootstrap.host = "mpi" + std::to_string(rank);
  bootstrap.key.fill(static_cast<std::uint8_t>(rank));
  return bootstrap;
}

const MpiTool kOpen{{"mpirun"}, MpiKind::kOpenMpi, "Open MPI 4.1.4"};
const MpiTool kHydra{{"mpiexec.hydra"}, MpiKind::kHydra, "MPICH 4.0.2"};
const MpiTool kSrun{{"srun", "--mpi=pmi2"}, MpiKind::kSrun, "Slurm 22.05.8"};
const std::vector<Host> kHosts{{"a", 2}, {"b", 2}};

TEST_CASE("the rank is found in the environment of every launch") {
  CHECK(mpi_place({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_RANK=3"})->rank == 3);
  CHECK(mpi_place({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1"})->local_rank == 1u);
  const auto hydra = mpi_place({"PMI_RANK=2", "MPI_LOCALRANKID=0", "PMI_FD=6"});
  REQUIRE(hydra);
  CHECK(hydra->rank == 2);
  CHECK(hydra->local_rank == 0u);
  CHECK(hydra->descriptors == std::vector<int>{6});
  CHECK(mpi_place({"SLURM_PROCID=5", "SLURM_LOCALID=1"})->local_rank == 1u);
  CHECK(mpi_place({"OMPI_COMM_WORLD_RANK=3"})->ends_with_launch);
  CHECK(mpi_place({"SLURM_PROCID=5", "PMIX_RANK=5"})->ends_with_launch);
  CHECK_FALSE(hydra->ends_with_launch);
  CHECK(mpi_place({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_SIZE=4"})->local_ranks == 4);
  CHECK(mpi_place({"PMI_RANK=2", "MPI_LOCALNRANKS=2"})->local_ranks == 2);
  CHECK(mpi_place({"SLURM_PROCID=5", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=4(x1),2"})->local_ranks == 2);
  CHECK(mpi_place({"SLURM_PROCID=5", "SLURM_STEP_TASKS_PER_NODE=4(x2)"})->local_ranks == 0);
  CHECK_FALSE(mpi_place({"PMIX_RANK=4"})->local_rank.has_value());
  CHECK_FALSE(mpi_place({"PMI_RANK=x", "PMI_RANKS=3", "HOME=/root"}).has_value());
}

TEST_CASE("one of several processes of a launch is distinguished from a single one") {
  CHECK(is_one_of_many({"OMPI_COMM_WORLD_SIZE=2"}));
  CHECK(is_one_of_many({"PMI_SIZE=16"}));
  CHECK_FALSE(is_one_of_many({"PMI_SIZE=1"}));
  CHECK_FALSE(is_one_of_many({"HOME=/root"}));
}

TEST_CASE("a program that is no rank gets nothing of the launch, but what its user has set") {
  const Words left = without_mpi_place({"A=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_MCA_ess=^singleton", "OMPI_MCA_btl=tcp",
                                        "PMIX_RANK=0", "PMI_FD=6", "MPI_LOCALRANKID=0"});
  CHECK(left == Words{"A=1", "OMPI_MCA_btl=tcp"});
}

TEST_CASE("MPI's command is recognized by its version output") {
  const auto kind = [](const std::string& text) { return recognize_mpi_tool({"mpirun"}, text); };
  CHECK(kind("mpirun (Open MPI) 5.0.1\n\nReport bugs")->version == "Open MPI 5.0.1");
  CHECK(kind("mpirun.openmpi (OpenRTE) 4.1.4\n")->kind == MpiKind::kOpenMpi);
  const auto hydra = kind("HYDRA build details:\n    Version:                                 4.0.2\n    CC: gcc");
  CHECK(hydra->kind == MpiKind::kHydra);
  CHECK(hydra->version == "MPICH 4.0.2");
  CHECK(kind("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 2023")->version == "Intel MPI 2021.10");
  CHECK(kind("slurm 22.05.8")->kind == MpiKind::kSrun);
  const auto unknown = kind("GNU coreutils 9.1\nmore");
  REQUIRE_FALSE(unknown.ok());
  CHECK(contains(unknown.error().message, "launcher.mpi_command"));
  CHECK(contains(unknown.error().message, "GNU coreutils 9.1"));
  CHECK_FALSE(contains(unknown.error().message, "more"));
}

TEST_CASE("the command is asked, and one that hangs, fails or is not there is named") {
  CHECK(ask_mpi_tool({"echo", "slurm 1.2"})->version == "Slurm 1.2");
  const auto absent = ask_mpi_tool({"/nonexistent/mpirun"});
  CHECK(contains(absent.error().message, "/nonexistent/mpirun"));
  CHECK(contains(absent.error().message, "launcher.mpi_command"));
  CHECK(contains(ask_mpi_tool({"sh", "-c", "echo broken >&2; exit 3"}).error().message, "exit status 3: broken"));
  CHECK(ask_mpi_tool({"sh", "-c", "sleep 1000"}, std::chrono::milliseconds(50)).error().code == ErrorCode::kTimeout);
}

TEST_CASE("one agent on one host, with each MPI's arguments") {
  const Words program{"/bin/elastictrain", "agent"};
  CHECK(joined(mpi_start_command(kOpen, {}, "b", program)) ==
        "mpirun --bind-to none --map-by slot --host b:1 -n 1 /bin/elastictrain agent");
  CHECK(joined(mpi_start_command(kOpen, {true, true}, "b", program)) ==
        "mpirun --allow-run-as-root --bind-to none --map-by slot --host b:1 -n 1 /bin/elastictrain agent");
  CHECK(joined(mpi_start_command(kHydra, {true, true}, "b", program)) ==
        "mpiexec.hydra -hosts b:1 -n 1 /bin/elastictrain agent");
  CHECK(joined(mpi_start_command(kSrun, {}, "b", program)) ==
        "srun --mpi=pmi2 --overlap --mem=0 --cpu-bind=none --wait=0 --kill-on-bad-exit=0 --quiet "
        "--job-name=elastictrain --nodes=1 --nodelist=b --ntasks-per-node=1 -n 1 /bin/elastictrain agent");
}

TEST_CASE("hosts are reached with the configured ssh, and know where to connect back") {
  const MpiSurroundings around{false, false, {"ssh", "-o", "BatchMode=yes", "-p", "22"}, "10.0.0.1", "eth0"};
  CHECK(joined(mpi_start_command(kOpen, around, "b", {"x"})) ==
        "mpirun --mca plm_rsh_agent ssh -f -o BatchMode=yes -p 22 "
        "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --bind-to none --map-by slot --host b:1 -n 1 x");
  CHECK(joined(mpi_start_command(kHydra, around, "b", {"x"})) ==
        "env HYDRA_LAUNCHER_EXTRA_ARGS=-o BatchMode=yes -p 22 mpiexec.hydra -localhost 10.0.0.1 -hosts b:1 -n 1 x");
  const MpiSurroundings other{false, false, {"/opt/ssh"}, "", ""};
  CHECK(contains(joined(mpi_start_command(kHydra, other, "b", {"x"})), "mpiexec.hydra -launcher-exec /opt/ssh -hosts"));
  CHECK_FALSE(contains(joined(mpi_start_command(kSrun, around, "b", {"x"})), "ssh"));
}

TEST_CASE("options in the user's own MPI command are not added again") {
  const MpiSurroundings around{false, true, {"ssh"}, "10.0.0.1", "eth0"};
  const MpiTool open{
      {"mpirun", "--mca", "plm_rsh_agent", "rsh", "--mca", "btl_tcp_if_include", "ib0"}, MpiKind::kOpenMpi, ""};
  const std::string words = joined(mpi_start_command(open, around, "b", {"x"}));
  CHECK_FALSE(contains(words, "plm_rsh_agent ssh"));
  CHECK_FALSE(contains(words, "btl_tcp_if_include eth0"));
  CHECK(contains(words, "oob_tcp_if_include eth0"));
  const MpiTool hydra{{"mpiexec", "-localhost", "head"}, MpiKind::kHydra, ""};
  CHECK_FALSE(contains(joined(mpi_start_command(hydra, around, "b", {"x"})), "10.0.0.1"));
}

TEST_CASE("a pool is one command for all slots that outlives the loss of a rank") {
  CHECK(joined(mpi_pool_command(kOpen, {true, true}, kHosts, {"x"})) ==
        "mpirun --allow-run-as-root --mca mpi_yield_when_idle 1 --bind-to none --map-by slot --host a:2,b:2 -n 4 "
        "--enable-recovery x");
  CHECK(joined(mpi_pool_command(kHydra, {}, kHosts, {"x"})) ==
        "mpiexec.hydra -hosts a:2,b:2 -n 4 -disable-auto-cleanup x");
  CHECK(contains(joined(mpi_pool_command(kSrun, {}, kHosts, {"x"})),
                 "--nodes=2 --nodelist=a,b --ntasks-per-node=2 -n 4 x"));
  CHECK_FALSE(contains(joined(mpi_pool_command(kSrun, {}, {{"a", 2}, {"b", 1}}, {"x"})), "--ntasks-per-node"));
}

TEST_CASE("the ranks of a pool are hosts of one slot, numbered through") {
  const std::vector<Host> plain{{"mpi0", 1}, {"mpi1", 1}, {"mpi2", 1}};
  CHECK(pool_ranks({{"a", 3}}) == plain);
  CHECK(pool_ranks({{"a", 2}, {"b", 1}}) == std::vector<Host>{{"mpi0@a", 1}, {"mpi1@a", 1}, {"mpi2@b", 1}});
  CHECK(pool_ranks({{"a", 2}, {"b", 1}}, false) == plain);
}

TEST_CASE("every rank finds its own bootstrap in a private file, which goes with its owner") {
  const TemporaryDirectory directory;
  std::string path;
  {
    auto file = PoolFile::write(directory.path + "/state", {bootstrap_of(0), bootstrap_of(1), bootstrap_of(2)});
    REQUIRE(file.ok());
    path = file->path();
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    REQUIRE(::stat(std::filesystem::path(path).parent_path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
    for (const std::uint32_t rank : {2u, 0u, 1u}) {
      const auto read = read_pool_bootstrap(path, rank);
      REQUIRE(read.ok());
      CHECK(read->host == "mpi" + std::to_string(rank));
      CHECK(read->key == bootstrap_of(rank).key);
    }
    CHECK(contains(read_pool_bootstrap(path, 3).error().message, "for rank 3 in " + path));
  }
  CHECK(std::filesystem::is_empty(directory.path + "/state"));
  CHECK(contains(read_pool_bootstrap(path, 0).error().message, "ELASTICTRAIN_STATE_DIR"));
}

TEST_CASE("a pool's file that others may read, or that is none, is refused") {
  const TemporaryDirectory directory;
  const auto file = PoolFile::write(directory.path, {bootstrap_of(0)});
  REQUIRE(file.ok());
  std::filesystem::permissions(file->path(), std::filesystem::perms(0644));
  CHECK(contains(read_pool_bootstrap(file->path(), 0).error().message, "other users can access"));
  CHECK_FALSE(read_pool_bootstrap(directory.path, 0).ok());
  std::filesystem::create_symlink(file->path(), directory.path + "/link");
  CHECK_FALSE(read_pool_bootstrap(directory.path + "/link", 0).ok());
  CHECK_FALSE(PoolFile::write("/proc/nowhere", {bootstrap_of(0)}).ok());
}

TEST_CASE("of a tool that explains at length the cause is quoted, without its rules of dashes") {
  CHECK(first_lines("-----\nThere are not enough slots\n\n=====\none\ntwo\nthree\nfour\nfive\n") ==
        "There are not enough slots; one; two; three; four");
  CHECK(last_lines("one\ntwo\r\nthree\nfour\nfive\nsix\n") == "two; three; four; five; six");
  CHECK(first_lines("").empty());
}

}  // namespace
}  // namespace elastictrain::launcher
