// Purpose: cluster.toml, the settings of `elastictrain cluster`, read and checked as strictly as a run's config. Pure,
// except what reads files.
//
// Errors: every mistake, one per line, each with file:line:col and, for a name, what was probably meant.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace elastictrain::cli {

// Limits as far as they are given; the most special place that gives one counts: the user, a group, all.
struct LimitsOfFile {
  std::optional<std::uint32_t> slots, running, queued;
  std::optional<std::int32_t> priority;
  std::optional<bool> submit;
};

// [[job]]: submitted when the cluster starts, by `elastictrain submit`.
struct JobOfFile {
  std::string name;
  std::string config;                  // from the directory of the cluster's file
  std::vector<std::string> arguments;  // further words
  std::int32_t priority = 0;
};

// Helper jobs of a batch system that bring more hosts.
struct GrowthOfFile {
  std::string expand, shrink, alive;  // commands for the shell; empty: none
  std::uint64_t most_slots = 0;       // of all hosts together
  double least_gain = 0.5;
  std::uint64_t expand_after_ms = 10'000;
  std::uint64_t expand_timeout_ms = 600'000;
  std::uint64_t shrink_after_ms = 60'000;
  std::uint64_t alive_interval_ms = 10'000;
};

// A policy that is the user's: at most one of library and program is set.
struct OutsidePolicyOfFile {
  std::string library, argument;
  std::vector<std::string> program;
  std::uint64_t timeout_ms = 1000;

  bool any() const { return !library.empty() || !program.empty(); }
};

struct ClusterFile {
  std::string name;
  std::string directory;  // empty: <state>/clusters/NAME
  bool everyone = false;
  std::string policy = "afs-p";
  OutsidePolicyOfFile outside;  // decides in its place
  std::uint64_t slice_ms = 0;
  std::uint64_t suspended_per_slot = 0;
  bool packing = false;
  bool migration = true;
  bool estimated_lengths = false;
  std::uint64_t recall_timeout_ms = 60'000;
  std::uint64_t resume_timeout_ms = 10'000;
  std::uint64_t join_timeout_ms = 300'000;
  std::uint64_t orphan_grace_ms = 120'000;
  std::uint64_t journal_max_bytes = 64u << 20;
  std::vector<std::string> host_list;
  std::string host_file;
  std::uint64_t host_slots = 1;
  std::uint64_t poll_ms = 5'000;
  GrowthOfFile growth;
  LimitsOfFile limits;
  std::map<std::string, LimitsOfFile> users, groups;
  std::vector<JobOfFile> jobs;
};

struct ClusterFileError {
  std::vector<std::string> messages;
};

std::variant<ClusterFile, ClusterFileError> read_cluster_file(std::string_view text, const std::string& file_name);

}  // namespace elastictrain::cli
