#include "cli/config/sweep_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <regex>

#include "cli/config/checks.h"
#include "cli/config/table_keys.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

namespace search = heuristics::sweep;

constexpr const char* kTrial = "trial";  // the name of a trial
constexpr std::int64_t kMostTimeoutMs = 86'400'000;
constexpr std::size_t kLongestName = 57;  // with "-1000" it is the name of a run

std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

// 1.0 stays "1.0": some programs take the type of a value from how it is written.
std::string real_text(double value) {
  const std::string text = shortest(value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

// As it is written in a command line. None: it is no single value.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* real = node.as_floating_point()) return real_text(real->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

std::string place_of(const std::string& parameter) {
  return "{" + parameter + "}";
}

// What is put in is not looked at again.
std::string filled(const std::string& word, const search::Assignment& texts) {
  std::string out;
  for (std::size_t at = 0; at < word.size();) {
    const auto text = std::find_if(texts.begin(), texts.end(), [&](const auto& one) {
      return word.compare(at, one.first.size() + 2, place_of(one.first)) == 0;
    });
    out += text == texts.end() ? word.substr(at, 1) : text->second;
    at += text == texts.end() ? 1 : text->first.size() + 2;
  }
  return out;
}

class SweepReader : public TableReader {
 public:
  using TableReader::TableReader;

  void read(const toml::table& table) {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const TableKeys keys = {text_key("name", file_.name),
                            text_key("cluster", file_.cluster),
                            text_key("config", file_.config),
                            list_key("arguments", file_.arguments),
                            text_key("metric", file_.metric),
                            text_key("pattern", file_.pattern),
                            whole_key("trials", 1, kMostTrials, file_.trials),
                            whole_key("seed", 0, most, file_.seed),
                            choice_key("goal", {"max", "min"}, goal_)};
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "parameters" && node.is_table()) {
        for (const auto& [one, value] : *node.as_table()) read_parameter(std::string(one.str()), one.source(), value);
      } else if (name == "stop" && node.is_table()) {
        read_table(*node.as_table(), "stop",
                   {choice_key("rule", {"halving", "median", "none"}, rule_),
                    whole_key("first", 1, 1'000'000, file_.rule.first), whole_key("factor", 2, 1000, file_.rule.factor),
                    list_key("program", file_.program), whole_key("timeout_ms", 1, kMostTimeoutMs, file_.timeout_ms)});
      } else {
        read_key(name, key.source(), node, "", keys, {"parameters", "stop"});
      }
    }
    finish();
  }

  std::variant<SweepFile, SweepFileError> take() {
    if (!messages().empty()) return SweepFileError{std::move(messages())};
    return std::move(file_);
  }

 private:
  static TableKey choice_key(std::string name, const std::vector<std::string>& words, std::string& target) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back("\"" + word + "\"");
    return {std::move(name), join(quoted, " or "), [words, &target](const toml::node& node) {
              const auto* value = node.as_string();
              if (value == nullptr || std::find(words.begin(), words.end(), value->get()) == words.end()) return false;
              target = value->get();
              return true;
            }};
  }

  void read_parameter(const std::string& name, const toml::source_region& region, const toml::node& node) {
    search::Parameter parameter{.name = name};
    if (name == kTrial) return complain(region, "{trial} is the name of the trial: choose another name");
    if (const auto* list = node.as_array(); list != nullptr && !list->empty()) {
      for (const toml::node& one : *list) {
        const auto text = text_of(one);
        if (!text) return complain(region, "parameters." + name + " must be a list of numbers, texts, true or false");
        if (std::find(parameter.values.begin(), parameter.values.end(), *text) != parameter.values.end())
          return complain(region, "parameters." + name + " has " + *text + " twice");
        parameter.values.push_back(*text);
      }
    } else if (node.is_table()) {
      parameter.range = read_range("parameters." + name, region, *node.as_table());
    } else {
      return complain(region, "parameters." + name +
                                  " must be a list of values, or a range such as {low = 1e-4, high = 0.1, scale = "
                                  "\"log\"}");
    }
    file_.space.push_back(std::move(parameter));
  }

  search::Range read_range(const std::string& section, const toml::source_region& region, const toml::table& table) {
    search::Range range;
    std::optional<double> low, high;
    std::string scale = "linear";
    const auto bound = [](const char* name, std::optional<double>& target) {
      return TableKey{name, "a number", [&target](const toml::node& node) {
                        target = node.value<double>();
                        return target.has_value() && std::isfinite(*target);
                      }};
    };
    read_table(table, section,
               {bound("low", low), bound("high", high), choice_key("scale", {"linear", "log"}, scale),
                flag_key("whole", range.is_whole)});
    if (!low || !high || !(*low < *high)) {
      complain(region, section + " needs low and high, and high above low");
    } else if (scale == "log" && *low <= 0) {
      complain(region, section + ": with scale = \"log\" low must be above 0");
    }
    range.low = low.value_or(0);
    range.high = high.value_or(1);
    range.is_log = scale == "log";
    return range;
  }

  void finish() {
    file_.rule.higher_is_better = goal_ != "min";
    if (!rule_.empty() && !file_.program.empty()) {
      complain("stop.program decides instead of stop.rule: give one of them");
    }
    file_.rule.kind = rule_ == "none" || !file_.program.empty() ? search::StopRule::Kind::kNone
                      : rule_ == "median"                       ? search::StopRule::Kind::kMedian
                                                                : search::StopRule::Kind::kHalving;
    if (file_.name.empty()) {
      complain("name is missing: the trials are the jobs NAME-1, NAME-2, …");
    } else if (const Status good = check_name(file_.name); !good.ok()) {
      complain("name: " + good.error().message);
    } else if (file_.name.size() > kLongestName) {
      complain("name: at most " + std::to_string(kLongestName) + " characters, since trials are named after it");
    }
    if (goal_.empty()) complain("goal is missing: \"max\" or \"min\"");
    check_metric();
    check_space();
  }

  void check_metric() {
    if (file_.metric.empty() == file_.pattern.empty()) {
      complain(
          "give either metric, the key of a value that the program notes (session.note(), run.note()), or pattern, a "
          "regular expression for its output");
    }
    if (file_.pattern.empty()) return;
    try {
      if (std::regex(file_.pattern).mark_count() == 0) {
        complain("pattern needs a group for the value, such as 'accuracy ([0-9.]+)'");
      }
    } catch (const std::regex_error& error) {
      complain("pattern is no regular expression: " + std::string(error.what()));
    }
  }

  void check_space() {
    if (file_.space.empty()) complain("[parameters] is missing, or has no parameter");
    for (const auto& parameter : file_.space) {
      const auto has = [&](const std::string& word) {
        return word.find(place_of(parameter.name)) != std::string::npos;
      };
      if (std::any_of(file_.arguments.begin(), file_.arguments.end(), has)) continue;
      complain("parameters." + parameter.name + " is used nowhere: write " + place_of(parameter.name) +
               " into arguments, e.g. \"--" + parameter.name + "=" + place_of(parameter.name) + "\"");
    }
    const auto size = search::grid_size(file_.space, kMostTrials);
    if (file_.trials > 0) return;
    if (!size) {
      complain("trials is missing: a range has no end of values, so say how many are drawn");
    } else if (*size > kMostTrials) {
      complain("the grid has more than " + std::to_string(kMostTrials) +
               " trials; say how many are drawn: trials = 100");
    }
  }

  SweepFile file_;
  std::string goal_, rule_;
};

}  // namespace

std::variant<SweepFile, SweepFileError> read_sweep_file(std::string_view text, const std::string& file_name) {
  SweepReader reader(file_name);
  read_toml(text, file_name, reader, [&reader](const toml::table& table) { reader.read(table); });
  return reader.take();
}

std::vector<SweepTrial> trials_of(const SweepFile& file) {
  std::vector<SweepTrial> trials;
  for (auto& values : file.trials > 0 ? search::draw(file.space, file.trials, file.seed) : search::grid(file.space)) {
    SweepTrial trial{.name = file.name + "-" + std::to_string(trials.size() + 1), .values = std::move(values)};
    if (!file.config.empty()) trial.words.push_back(file.config);
    search::Assignment texts = trial.values;
    texts.emplace_back(kTrial, trial.name);
    for (const std::string& word : file.arguments) trial.words.push_back(filled(word, texts));
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace elastictrain::cli
