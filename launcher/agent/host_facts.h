// Purpose: facts about this host, read from the system without a vendor's library: name, cores, memory, GPUs,
// addresses, the key of its machine, and whether a program would start there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

// The GPUs in the list of NVIDIA's kernel driver, which needs no library of the vendor.
//
// Thread: any; reads files below `root`. Errors: no GPUs; fields that the driver does not report stay empty.
// Source: the driver's own files, /proc/driver/nvidia/gpus/*/information, and the device files /dev/nvidia*.

namespace elastictrain::launcher {

struct DriverGpu {
  std::string bus_id;  // "0000:3b:00.0", as sysfs names it
  std::string model;
  std::string uuid;  // "GPU-8932f937-..."
  int minor = -1;    // of /dev/nvidia*
};

// By bus id.
std::vector<DriverGpu> driver_gpus(const std::string& root = "");

// Those whose device file this process may open: a batch system withholds other GPUs from a job through file
// permissions.
std::vector<DriverGpu> usable_driver_gpus(const std::string& root = "");

// The key by which agents of one machine recognize that their workers may share memory: equal if boot, network
// namespace (abstract sockets reach no further) and user are the same.

// Empty if the machine does not provide them.
std::string machine_key();

// The facts about this host: name, cores, memory, GPUs, clock, and the addresses of its data plane.
// Thread: any; reads the system. Errors: an interface that does not exist, by name.

std::string host_name();
// Processors that this process may use: a container, a batch system or taskset may leave it fewer than there are.
std::uint32_t usable_cores();
// All except the network and what requires a vendor's library.
protocol::HostFacts host_facts();

// The name of the interface that has this numeric address; empty if none has it.
std::string interface_of(const std::string& address);

// The numeric addresses of an interface, IPv4 first; an error lists the interfaces that exist.
Result<std::vector<std::string>> interface_addresses(const std::string& interface);

// Facts about the program on a host, for `elastictrain check`: whether it would start there.
//
// Asks the file system of this host; starts nothing. Thread: any. Errors: none; they are the answer.

struct ProgramFacts {
  std::string problem;       // why it cannot be started; empty: nothing is known to be wrong
  int exit_status = 0;       // kStatusNotFound or kStatusNotExecutable
  std::string missing_file;  // what it would not find once it has started, and why
  std::string
      interpreter;  // of a Python program: "/usr/bin/python3.11", or with the version of its virtual environment
};

// `argv`: of a worker; none: nothing is asked about the program. `environment`: a worker's whole one. `directory`:
// where it starts; empty: the current one. `files`: what it reads, relative to that.
ProgramFacts program_facts(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                           const std::string& directory, const std::vector<std::string>& files);

}  // namespace elastictrain::launcher
