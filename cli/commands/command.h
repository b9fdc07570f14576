// Purpose: the interface between the subcommands and the program. Each subcommand adds itself to the parser and stores
// in Invocation what to do. Nothing is done while the command line is being read.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace elastictrain::cli {

struct Invocation {
  std::function<int()> action;
  std::vector<std::string> program;  // the arguments after "--"
};

// The groups under which --help lists the commands.
inline constexpr const char* kGroupTrain = "Train";
inline constexpr const char* kGroupBeside = "Client commands";
inline constexpr const char* kGroupOther = "Other";

void add_run(CLI::App& app, Invocation& invocation);
void add_check(CLI::App& app, Invocation& invocation);
void add_plan(CLI::App& app, Invocation& invocation);
void add_status(CLI::App& app, Invocation& invocation);
void add_resize(CLI::App& app, Invocation& invocation);
void add_replace(CLI::App& app, Invocation& invocation);
void add_drain(CLI::App& app, Invocation& invocation);
void add_topology(CLI::App& app, Invocation& invocation);
void add_stop(CLI::App& app, Invocation& invocation);
void add_events(CLI::App& app, Invocation& invocation);
void add_explain(CLI::App& app, Invocation& invocation);
void add_worker(CLI::App& app, Invocation& invocation);
void add_agent(CLI::App& app, Invocation& invocation);
void add_nccl_id(CLI::App& app, Invocation& invocation);
void add_accelerators(CLI::App& app, Invocation& invocation);
void add_completion(CLI::App& app, Invocation& invocation);

// Every subcommand, in the order of --help.
void add_commands(CLI::App& app, Invocation& invocation);

}  // namespace elastictrain::cli
