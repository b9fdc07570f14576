// Purpose: one reader per batch system. Pure; used by read_allocation() only, which adds the system's name to errors.
#pragma once

#include "launcher/batch/allocation.h"
#include "launcher/batch/hostlist.h"

namespace elastictrain::launcher::batch {

// SLURM_JOB_NODELIST. Slots: SLURM_TASKS_PER_NODE where tasks were asked for and some host has more than one; else GPUs
// a node; else SLURM_TASKS_PER_NODE where tasks were asked for; else CPUs a node by SLURM_CPUS_PER_TASK where that was
// asked for; else 1.
Result<Allocation> read_slurm(const BatchSurroundings& around);

// PBS_NODEFILE: a line for each slot. Torque and PBS Pro.
Result<Allocation> read_pbs(const BatchSurroundings& around);

// LSB_DJOB_HOSTFILE (a line for each slot), else LSB_MCPU_HOSTS ("a 2 b 1"), else LSB_HOSTS ("a a b").
Result<Allocation> read_lsf(const BatchSurroundings& around);

// PE_HOSTFILE: "host slots queue processors" a line.
Result<Allocation> read_sge(const BatchSurroundings& around);

// `flux hostlist`; FLUX_JOB_SIZE tasks spread over FLUX_JOB_NNODES hosts where it says so, else 1 slot each.
Result<Allocation> read_flux(const BatchSurroundings& around);

// The variable's value; empty where it is not set.
std::string variable(const BatchSurroundings& around, const std::string& name);

// A host for each line or word of `text`.
Status collect_words(std::string_view text, std::string_view separators, HostCollector& hosts);

}  // namespace elastictrain::launcher::batch
