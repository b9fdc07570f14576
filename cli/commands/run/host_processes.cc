#include "cli/commands/run/host_processes.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "launcher/agent/accelerator_probe.h"
#include "launcher/agent/agent.h"
#include "train/builtin/loop/trainer.h"
#include "train/comm/mpi/mpi_library.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/comm/nccl/unique_id_helper.h"
#include "train/device/cuda_library.h"
#include "train/device/device.h"
#include "train/device/kernel_module.h"

// `elastictrain agent`: started by a launcher. It reads everything that it needs from its standard input or from a
// pool's file. Not for users.

namespace elastictrain::cli {

Command make_agent(Invocation& invocation) {
  const auto how = std::make_shared<launcher::AgentStart>();
  return {"agent",
          "one per host; started by run",
          "",
          {value("--mpi-pool", "FILE", "file with the settings of the ranks of an MPI launch", how->pool_file),
           flag("--outlive-launch", "keep running when the launch command ends", how->outlives_launch)},
          always(invocation, [how] { return launcher::run_agent(*how); })};
}

// `elastictrain nccl-id N`: makes unique ids of NCCL for the worker that started it, and ends with it. Not for users.

Command make_nccl_id(Invocation& invocation) {
  const auto count = std::make_shared<std::string>();
  Argument number = word("count", "N", "number of ids", *count);
  number.kind = Argument::Kind::kNeeded;
  const auto choose = [&invocation, count]() -> Status {
    const auto ids = parse_whole_number(*count);
    if (!ids) return wrong_usage("'" + *count + "' is not a number of ids");
    invocation.action = [ids = *ids] { return comm::run_unique_id_helper(ids); };
    return {};
  };
  return {"nccl-id", "make unique ids of NCCL; started by workers", "", {number}, choose};
}

// `elastictrain accelerators`: prints what find_accelerators() found as one line for the agent that started it. Not for
// users.
namespace {

using device::CudaLibrary;
using protocol::AcceleratorFacts;

protocol::GpuFacts describe(const CudaLibrary& cuda, int ordinal) {
  device::CudaDevice gpu = 0;
  if (cuda.device_get(&gpu, ordinal) != device::kCudaSuccess) return {.name = "does not answer"};
  char name[128] = {};
  char bus[32] = {};
  std::size_t bytes = 0;
  int major = 0;
  int minor = 0;
  cuda.device_name(name, sizeof name, gpu);
  cuda.device_bus_id(bus, sizeof bus, gpu);
  cuda.device_memory(&bytes, gpu);
  cuda.device_attribute(&major, device::kAttributeMajor, gpu);
  cuda.device_attribute(&minor, device::kAttributeMinor, gpu);
  return {name, bytes, static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(minor), bus};
}

// Pairs of GPUs that copy through host memory.
std::string peer_access(const CudaLibrary& cuda, int count) {
  std::string apart;
  for (int from = 0; from < count; ++from) {
    for (int to = from + 1; to < count; ++to) {
      int can = 0;
      cuda.can_access_peer(&can, from, to);
      if (can == 0) apart += (apart.empty() ? "" : ", ") + std::to_string(from) + "-" + std::to_string(to);
    }
  }
  return apart.empty() ? "every pair" : "not between " + apart + "; those copy through host memory";
}

void find_gpus(AcceleratorFacts& facts) {
  const auto cuda = CudaLibrary::get();
  if (!cuda) {
    facts.driver_problem = cuda.error().message;
    return;
  }
  int version = 0;
  (*cuda)->driver_version(&version);
  facts.driver =
      "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + ", " + (*cuda)->path;
  const auto count = device::Device::count();
  if (!count) {
    facts.driver_problem = count.error().message;
    return;
  }
  for (int i = 0; i < *count; ++i) facts.gpus.push_back(describe(**cuda, i));
  if (*count > 1) facts.peer_access = peer_access(**cuda, *count);
}

void find_nccl(AcceleratorFacts& facts) {
  const auto nccl = comm::NcclLibrary::get();
  if (!nccl) {
    facts.nccl_problem = nccl.error().message;
    return;
  }
  facts.nccl = (*nccl)->path;
  facts.nccl_version = static_cast<std::uint32_t>((*nccl)->version);
}

std::uint64_t shared_memory_free_bytes() {
  struct statvfs usage = {};
  if (::statvfs("/dev/shm", &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.f_bavail) * usage.f_frsize;
}

}  // namespace

AcceleratorFacts find_accelerators() {
  AcceleratorFacts facts;
  facts.shared_memory_free_bytes = shared_memory_free_bytes();
  find_gpus(facts);
  find_nccl(facts);
  if (const auto compiler = device::find_kernel_compiler(); !compiler.ok()) {
    facts.nvrtc_problem = compiler.error().message;
  }
  const auto cublas = device::CublasLibrary::get();
  (cublas ? facts.cublas : facts.cublas_problem) = cublas ? (*cublas)->path : cublas.error().message;
  const auto mpi = comm::MpiLibrary::open();
  (mpi.ok() ? facts.mpi : facts.mpi_problem) = mpi.ok() ? (*mpi)->version() : mpi.error().message;
  return facts;
}

Command make_accelerators(Invocation& invocation) {
  const auto print = []() -> int {
    std::printf("\n%s\n", launcher::accelerator_line(find_accelerators()).c_str());
    std::fflush(stdout);
    // Not exit(): a vendor library that fails while it is unloaded must not change the result.
    ::_exit(kExitSuccess);
  };
  return {launcher::kAcceleratorsCommand, "list the GPUs; started by agents", "", {}, always(invocation, print)};
}

// `elastictrain worker`: the built-in trainer, as one worker of a run or alone.
namespace {

std::string type_name(const train::TrainerField& field) {
  if (!field.unit.empty()) return std::string(field.unit);
  switch (field.type) {
    case train::FieldType::kText:
      return field.allowed().empty() ? "TEXT" : join(split(field.allowed(), ','), "|");
    case train::FieldType::kInteger:
      return "N";
    case train::FieldType::kNumber:
      return "NUMBER";
    case train::FieldType::kList:
      return "LIST";
  }
  return "";
}

Argument argument_of(const train::TrainerField& field, const std::shared_ptr<train::TrainerOptions>& options) {
  const std::string flag = train::flag_name(field);
  const auto set = [options, &field, flag](const std::string& text) -> Status {
    const Status good = field.set(*options, text);
    return good.ok() ? good : wrong_usage(flag + ": " + good.error().message);
  };
  const std::string normal = field.get(train::TrainerOptions());
  return value(flag, type_name(field), std::string(field.help) + (normal.empty() ? "" : "; default " + normal), set);
}

int train_now(const train::TrainerOptions& options) {
  const Status good = train::validate(options);
  if (good.ok()) {
    // `run` passes them on, for programs that have a use for them; their default is to end the process.
    for (const int number : {SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
    return train::run_trainer(options);
  }
  std::cerr << "elastictrain worker: " << good.error().message << "\n";
  return kExitUsage;
}

}  // namespace

Command make_worker(Invocation& invocation) {
  const auto options = std::make_shared<train::TrainerOptions>();
  std::vector<Argument> arguments;
  for (const train::TrainerField& field : train::trainer_fields()) arguments.push_back(argument_of(field, options));
  return {"worker", "the built-in trainer; alone when no run started it", kGroupTrain, arguments,
          always(invocation, [options] { return train_now(*options); })};
}

}  // namespace elastictrain::cli
