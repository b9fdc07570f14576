// Purpose: the subcommands as data: the arguments that each one takes, and what it does. The parser, --help and the
// completion scripts come from it (cli/parser.h). Nothing is done while the command line is being read: a command
// stores in Invocation what to do.
//
// Errors: the functions of an argument and of a command return the text that the user reads; "--flag: " is part of it
// where it helps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

struct Invocation {
  std::function<int()> action;
  std::vector<std::string> program;  // the arguments after "--"
  std::vector<std::string> instead;  // not empty: the arguments of another command, which does it
  std::vector<std::string> line;     // everything after the command's name, as it was typed
};

struct Argument {
  enum class Kind {
    kFlag,    // without a value
    kValue,   // at most once, with a value
    kList,    // any number of times, with one value each
    kWord,    // without a flag: one word or none
    kNeeded,  // without a flag: exactly one word
    kWords,   // without a flag: any number of words
  };
  using Use = std::function<Status(const std::vector<std::string>& values)>;

  Kind kind = Kind::kFlag;
  std::string names;  // "-n,--np"; of a word: a name without dashes
  std::string type;   // the value, or the word, as --help shows it
  std::string help;
  Use use;                                 // called once the command line is read, if the argument was given
  std::string group;                       // heading in --help; empty: the common one
  std::vector<std::string> excludes = {};  // names of earlier arguments of the command that it cannot be given with

  Argument&& in(std::string heading) &&;
  Argument&& instead_of(std::vector<std::string> others) &&;
};

// The targets must live as long as the command.
Argument flag(std::string names, std::string help, bool& target);
Argument flag(std::string names, std::string help, std::function<void()> use);
Argument value(std::string names, std::string type, std::string help, std::string& target);
Argument value(std::string names, std::string type, std::string help, std::function<Status(const std::string&)> use);
Argument list(std::string names, std::string type, std::string help, std::vector<std::string>& target);
Argument list(std::string names, std::string type, std::string help, Argument::Use use);
Argument word(std::string name, std::string type, std::string help, std::string& target);
Argument words(std::string name, std::string type, std::string help, std::vector<std::string>& target);

struct Command {
  std::string name;
  std::string help;
  std::string group;  // empty: --help does not list the command
  std::vector<Argument> arguments;
  std::function<Status()> choose;  // after all arguments: stores the action, or says what is wrong
  std::string footer = {};         // of its --help
  bool takes_program = false;      // at the end of its arguments, with or without "--" before it
};

// The groups under which --help lists the commands.
inline constexpr const char* kGroupTrain = "Train";
inline constexpr const char* kGroupClient = "Client commands";
inline constexpr const char* kGroupCluster = "Many jobs on one cluster";
inline constexpr const char* kGroupOther = "Other";

// A function for Command::choose that stores `action`.
std::function<Status()> always(Invocation& invocation, std::function<int()> action);
Error wrong_usage(std::string text);

// Each subcommand, in the file of its name.
Command make_run(Invocation& invocation);
Command make_torchrun(Invocation& invocation);
Command make_check(Invocation& invocation);
Command make_plan(Invocation& invocation);
Command make_simulate(Invocation& invocation);
Command make_status(Invocation& invocation);
Command make_resize(Invocation& invocation);
Command make_replace(Invocation& invocation);
Command make_drain(Invocation& invocation);
Command make_undrain(Invocation& invocation);
Command make_topology(Invocation& invocation);
Command make_stop(Invocation& invocation);
Command make_cluster(Invocation& invocation);
Command make_submit(Invocation& invocation);
Command make_queue(Invocation& invocation);
Command make_sweep(Invocation& invocation);
Command make_cancel(Invocation& invocation);
Command make_pause(Invocation& invocation);
Command make_resume(Invocation& invocation);
Command make_priority(Invocation& invocation);
Command make_events(Invocation& invocation);
Command make_list(Invocation& invocation);
Command make_prune(Invocation& invocation);
Command make_logs(Invocation& invocation);
Command make_attach(Invocation& invocation);
Command make_explain(Invocation& invocation);
Command make_report(Invocation& invocation);
Command make_man(Invocation& invocation);
Command make_init(Invocation& invocation);
Command make_top(Invocation& invocation);
Command make_worker(Invocation& invocation);
Command make_completion(Invocation& invocation);
Command make_complete(Invocation& invocation);
Command make_agent(Invocation& invocation);
Command make_nccl_id(Invocation& invocation);
Command make_accelerators(Invocation& invocation);

// Every subcommand, in the order of --help.
std::vector<Command> all_commands(Invocation& invocation);

}  // namespace elastictrain::cli
