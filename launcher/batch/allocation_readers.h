// Purpose: one reader for each batch system (Slurm, PBS, LSF, SGE, Flux), from its environment and files to hosts
// with slots. Pure.
#pragma once

#include "launcher/batch/allocation.h"
#include "launcher/batch/hostlist.h"

// One reader per batch system. Pure; used by read_allocation() only, which adds the system's name to errors.

namespace elastictrain::launcher::batch {

// SLURM_JOB_NODELIST. Slots: SLURM_TASKS_PER_NODE if tasks were requested and some host has more than one; otherwise
// GPUs per node; otherwise SLURM_TASKS_PER_NODE if tasks were requested; otherwise CPUs per node by SLURM_CPUS_PER_TASK
// if that was requested; otherwise 1.
Result<Allocation> read_slurm(const BatchSurroundings& around);

// PBS_NODEFILE: one line per slot. Torque and PBS Pro.
Result<Allocation> read_pbs(const BatchSurroundings& around);

// LSB_DJOB_HOSTFILE (one line per slot), otherwise LSB_MCPU_HOSTS ("a 2 b 1"), otherwise LSB_HOSTS ("a a b").
Result<Allocation> read_lsf(const BatchSurroundings& around);

// PE_HOSTFILE: "host slots queue processors" per line.
Result<Allocation> read_sge(const BatchSurroundings& around);

// `flux hostlist`; FLUX_JOB_SIZE tasks spread over FLUX_JOB_NNODES hosts if these are set, otherwise 1 slot each.
Result<Allocation> read_flux(const BatchSurroundings& around);

// The variable's value; empty if it is not set.
std::string variable(const BatchSurroundings& around, const std::string& name);

// One host for each line or item of `text`.
Status collect_tokens(std::string_view text, std::string_view separators, HostCollector& hosts);

}  // namespace elastictrain::launcher::batch
