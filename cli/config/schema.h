// Purpose: the one table of configuration keys: name, type, unit, range, help, and the key's own flag if it has one.
// The file reader, the environment, --set, the flags of `run`, `check` and the tests all read it.
//
// Defaults are the member initializers of RunConfig.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/config/run_config.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

using CheckText = Status (*)(std::string_view text);

struct IntegerField {
  std::uint64_t& (*at)(RunConfig&);
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  bool may_be_unlimited = false;  // the text "unlimited" means kNoLimit
};
struct BoolField {
  bool& (*at)(RunConfig&);
};
struct TextField {
  std::string& (*at)(RunConfig&);
  CheckText check = nullptr;
};
struct ListField {
  std::vector<std::string>& (*at)(RunConfig&);
  CheckText check = nullptr;     // of each element
  bool pairs = false;            // elements are NAME=value; a TOML table is accepted as well
  bool split_on_spaces = false;  // splits one text into a list at spaces, else at commas
};
struct ChoiceField {
  std::span<const std::string_view> names;
  void (*set)(RunConfig&, std::size_t index);
  std::size_t (*get)(const RunConfig&);
};
struct TrainerKeyField {
  const train::TrainerField* field = nullptr;
};

struct NumberField {
  double& (*at)(RunConfig&);
  double min = 0;
  double max = 0;
};
struct PolicyKeyField {
  const heuristics::PolicySpec* policy = nullptr;
  const heuristics::ParameterSpec* parameter = nullptr;
};

struct KeySpec {
  std::string name;  // "batch.per_worker"
  std::string unit;  // "" if it has none
  std::string help;
  std::string flag;  // CLI11 form, e.g. "-l,--label"; "" if only --set reaches it
  std::variant<IntegerField, BoolField, TextField, ListField, ChoiceField, TrainerKeyField, NumberField, PolicyKeyField>
      field;
  bool flag_is_duration = false;  // the flag takes "90s" or "5m"; a bare number is seconds
};

const std::vector<KeySpec>& schema();
const KeySpec* find_key(std::string_view name);

// Section of a key ("" for the top level, "policy.efficiency" for a nested one) and its name within the section.
std::pair<std::string_view, std::string_view> split_key(std::string_view name);

// "ELASTICTRAIN_BATCH_PER_WORKER" for "batch.per_worker".
std::string environment_name(const KeySpec& key);

}  // namespace elastictrain::cli
