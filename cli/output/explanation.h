// Purpose: texts of `explain`: decisions of a run beside those of a replay, and the expected length of the run.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The expected length of a run that does not name one, by its loss, in words. Pure.

namespace elastictrain::cli {

// One line with its end: the samples at which the loss converges and how far that may be off, or why that is not known.
// Empty without both. `left_s`: until then.
std::string expected_length_text(const std::optional<std::pair<double, double>>& samples, const std::string& why_not,
                                 std::optional<double> left_s = std::nullopt);

// The output of `explain`: the run's decisions next to those of a replay. Pure.

// One view: what the run decided then and what the replayed policy decides. Or a change for another reason.
struct Explained {
  double up_s = 0;
  std::uint32_t workers = 0;
  std::uint32_t run_target = 0;
  std::vector<std::uint64_t> run_replaced;
  std::string run_code;
  std::string run_reason;  // empty: nothing had been decided yet
  std::vector<std::pair<std::string, double>> run_numbers;
  bool is_decision = false;  // the run decided something new here
  bool is_change = false;    // no view: the run changed, and not because a policy said so
  std::uint32_t now_wants = 0;
  std::vector<std::uint64_t> now_replaces;
  std::string now_code;
  std::string now_reason;
  // Neither the run's policy nor the replayed one decided anything or gave a reason.
  bool says_nothing() const {
    return !is_change && !differs() && run_target == workers && run_replaced.empty() && run_reason.empty() &&
           now_reason.empty();
  }
  bool differs() const { return run_target != now_wants || run_replaced != now_replaces; }
};

// Without `all`, only what the run decided, and where the policy would have decided differently.
std::string render_explained(const std::vector<Explained>& views, const std::string& policy, bool all);
std::string render_explained_json(const std::vector<Explained>& views, bool all);

}  // namespace elastictrain::cli
