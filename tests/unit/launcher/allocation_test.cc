// Recorded environments of batch jobs, and the hosts and slots that are read from them.
#include "launcher/batch/allocation.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::launcher;

namespace {

using Variables = std::map<std::string, std::string>;
using Hosts = std::vector<Host>;

struct Recorded {
  Variables variables;
  std::map<std::string, std::string> files;
  std::string flux_hostlist;
};

Result<Allocation> read(const Recorded& recorded) {
  BatchSurroundings around{recorded.variables,
                           [&](const std::string& path) -> Result<std::string> {
                             const auto found = recorded.files.find(path);
                             if (found != recorded.files.end()) return found->second;
                             return Error{ErrorCode::kUnavailable, "the file " + path + " cannot be read"};
                           },
                           [&](const std::vector<std::string>& argv) -> Result<std::string> {
                             CHECK(argv == std::vector<std::string>{"flux", "hostlist"});
                             if (!recorded.flux_hostlist.empty()) return recorded.flux_hostlist;
                             return Error{ErrorCode::kUnavailable, "flux: not found"};
                           }};
  return read_allocation(detect_scheduler(recorded.variables), around);
}

Allocation allocation_of(const Recorded& recorded) {
  const auto allocation = read(recorded);
  REQUIRE_MESSAGE(allocation.ok(), allocation.error().message);
  return *allocation;
}

// `sbatch --nodes=3 --ntasks-per-node=2`, Slurm 22.05.
Recorded slurm_job() {
  return {{{"SLURMD_NODENAME", "node1"},
           {"SLURM_CPUS_ON_NODE", "2"},
           {"SLURM_JOB_CPUS_PER_NODE", "2(x3)"},
           {"SLURM_JOB_ID", "42"},
           {"SLURM_JOB_NODELIST", "node[1-3]"},
           {"SLURM_JOB_NUM_NODES", "3"},
           {"SLURM_NTASKS", "6"},
           {"SLURM_NTASKS_PER_NODE", "2"},
           {"SLURM_TASKS_PER_NODE", "2(x3)"}},
          {},
          ""};
}

}  // namespace

TEST_CASE("a Slurm job has the hosts of its list and the tasks that were asked for") {
  const Allocation job = allocation_of(slurm_job());
  CHECK(job.scheduler == Scheduler::kSlurm);
  CHECK(job.job_id == "42");
  CHECK(job.hosts == Hosts{{"node1", 2}, {"node2", 2}, {"node3", 2}});
  CHECK(job.slots_from == "SLURM_TASKS_PER_NODE");
  CHECK(job.this_host == "node1");
}

TEST_CASE("tasks of a Slurm job may differ from host to host") {
  Recorded job = slurm_job();
  job.variables["SLURM_TASKS_PER_NODE"] = "4(x2),1";
  CHECK(allocation_of(job).hosts == Hosts{{"node1", 4}, {"node2", 4}, {"node3", 1}});
}

TEST_CASE("one task a node with GPUs is a launcher a node: each GPU is a slot") {
  Recorded job = slurm_job();
  job.variables["SLURM_NTASKS_PER_NODE"] = "1";
  job.variables["SLURM_TASKS_PER_NODE"] = "1(x3)";
  job.variables["SLURM_GPUS_ON_NODE"] = "8";
  CHECK(allocation_of(job).hosts[2] == Host{"node3", 8});
  CHECK(allocation_of(job).slots_from == "SLURM_GPUS_ON_NODE");
  job.variables["SLURM_GPUS_PER_NODE"] = "a100:4";
  CHECK(allocation_of(job).hosts[0] == Host{"node1", 4});
  job.variables["SLURM_GPUS_PER_NODE"] = "tesla:2,kepler:1";
  CHECK(allocation_of(job).hosts[0] == Host{"node1", 3});
  job.variables["SLURM_TASKS_PER_NODE"] = "16(x3)";
  CHECK(allocation_of(job).hosts[0] == Host{"node1", 16});
}

TEST_CASE("a Slurm job that asks for nodes only has one slot each, and for CPUs a task what that gives") {
  Recorded job = slurm_job();
  for (const char* name : {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"}) job.variables.erase(name);
  job.variables["SLURM_TASKS_PER_NODE"] = "64(x3)";
  CHECK(allocation_of(job).hosts[0] == Host{"node1", 1});
  job.variables["SLURM_CPUS_PER_TASK"] = "16";
  job.variables["SLURM_JOB_CPUS_PER_NODE"] = "64(x2),32";
  CHECK(allocation_of(job).hosts == Hosts{{"node1", 4}, {"node2", 4}, {"node3", 2}});
}

TEST_CASE("within a step of Slurm the step's own counts are not taken for the job's") {
  Recorded job = slurm_job();
  job.variables["SLURM_TASKS_PER_NODE"] = "1";
  const auto refused = read(job);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("SLURM_TASKS_PER_NODE covers 1 hosts, not 3") != std::string::npos);
  job.variables["SLURM_STEP_ID"] = "0";
  CHECK(allocation_of(job).hosts == Hosts{{"node1", 1}, {"node2", 1}, {"node3", 1}});
}

TEST_CASE("PBS repeats a host for each of its slots") {
  const Allocation job = allocation_of({{{"PBS_JOBID", "7.head"}, {"PBS_NODEFILE", "/var/spool/pbs/aux/7.head"}},
                                        {{"/var/spool/pbs/aux/7.head", "c01\nc01\r\nc02.site.org\nc01\n"}},
                                        ""});
  CHECK(job.scheduler == Scheduler::kPbs);
  CHECK(job.job_id == "7.head");
  CHECK(job.hosts == Hosts{{"c01", 3}, {"c02.site.org", 1}});
}

TEST_CASE("LSF gives hosts in a file, as pairs or as names, the best source first") {
  Recorded job{{{"LSB_JOBID", "9"},
                {"LSB_DJOB_HOSTFILE", "/tmp/hosts.9"},
                {"LSB_MCPU_HOSTS", "a 2  b 1 "},
                {"LSB_HOSTS", "a b"}},
               {{"/tmp/hosts.9", "x\nx\ny\n"}},
               ""};
  CHECK(allocation_of(job).hosts == Hosts{{"x", 2}, {"y", 1}});
  job.variables.erase("LSB_DJOB_HOSTFILE");
  CHECK(allocation_of(job).hosts == Hosts{{"a", 2}, {"b", 1}});
  job.variables.erase("LSB_MCPU_HOSTS");
  CHECK(allocation_of(job).hosts == Hosts{{"a", 1}, {"b", 1}});
  job.variables.erase("LSB_HOSTS");
  CHECK_FALSE(read(job).ok());
  job.variables["LSB_MCPU_HOSTS"] = "a 2 b";
  CHECK_FALSE(read(job).ok());
}

TEST_CASE("SGE lists host and slots in the first two columns") {
  const Allocation job = allocation_of({{{"PE_HOSTFILE", "/spool/pe_hostfile"}, {"JOB_ID", "11"}},
                                        {{"/spool/pe_hostfile", "n1 4 all.q@n1 UNDEFINED\nn2\t2 all.q@n2 <NULL>\n"}},
                                        ""});
  CHECK(job.scheduler == Scheduler::kSge);
  CHECK(job.hosts == Hosts{{"n1", 4}, {"n2", 2}});
}

TEST_CASE("Flux is asked, in a task and in a batch script") {
  CHECK(allocation_of({{{"FLUX_JOB_ID", "ƒ3E"}, {"FLUX_JOB_SIZE", "5"}, {"FLUX_JOB_NNODES", "2"}}, {}, "f[0-1]\n"})
            .hosts == Hosts{{"f0", 3}, {"f1", 2}});
  const Allocation script = allocation_of({{{"FLUX_ENCLOSING_ID", "ƒ4"}}, {}, "f[0-2]\n"});
  CHECK(script.job_id == "ƒ4");
  CHECK(script.hosts.size() == 3);
  const auto refused = read({{{"FLUX_JOB_ID", "ƒ3E"}}, {}, ""});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("flux: not found") != std::string::npos);
}

TEST_CASE("the first system wins, empty variables are none, and outside of jobs there is none") {
  CHECK(detect_scheduler({}) == Scheduler::kNone);
  CHECK(detect_scheduler({{"SLURM_JOB_ID", ""}}) == Scheduler::kNone);
  CHECK(detect_scheduler({{"PE_HOSTFILE", "x"}, {"PBS_JOBID", "1"}}) == Scheduler::kPbs);
  CHECK(detect_scheduler({{"FLUX_JOB_ID", "1"}, {"SLURM_JOB_ID", "1"}}) == Scheduler::kSlurm);
}

TEST_CASE("what cannot be used is named with the way to go without it") {
  Recorded job = slurm_job();
  job.variables["SLURM_JOB_NODELIST"] = "node[1-";
  const auto refused = read(job);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("the allocation of slurm cannot be read: SLURM_JOB_NODELIST: ") == 0);
  CHECK(refused.error().message.find("--scheduler none") != std::string::npos);
  CHECK_FALSE(read({{{"PBS_JOBID", "7"}}, {}, ""}).ok());
  CHECK_FALSE(read({{{"PBS_JOBID", "7"}, {"PBS_NODEFILE", "/x"}}, {{"/x", "\n\n"}}, ""}).ok());
}
