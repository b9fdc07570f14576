#include "supervisor/policy/runner_settings.h"

#include <filesystem>
#include <utility>

#include "heuristics/compose/compose.h"
#include "heuristics/registry/registry.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {
namespace {

constexpr const char* kFixedSize = "fixed";
constexpr const char* kStragglers = "stragglers";

}  // namespace

std::unique_ptr<heuristics::Policy> make_policy(const RunnerSettings& settings,
                                                std::unique_ptr<heuristics::Policy> for_size) {
  const heuristics::PolicySpec* spec = heuristics::find_policy(settings.name);
  const heuristics::PolicySpec* watcher = heuristics::find_policy(kStragglers);
  if (spec == nullptr || watcher == nullptr) panic("the named policy does not exist");
  const auto watching = heuristics::check_parameters(*watcher, settings.stragglers);
  if (!for_size) for_size = spec->make(settings.parameters);
  auto size = heuristics::with_limits(std::move(for_size));
  if (settings.hysteresis > 0) {
    size = heuristics::with_hysteresis(std::move(size), settings.hysteresis, settings.hysteresis_views);
  }
  if (settings.cool_down_s > 0) size = heuristics::with_cool_down(std::move(size), settings.cool_down_s);
  for (const Companion& companion : settings.companions) {
    const heuristics::PolicySpec* other = heuristics::find_policy(companion.name);
    if (other == nullptr) panic("the named policy does not exist");
    size = heuristics::beside(std::move(size), other->make(companion.parameters), heuristics::Merge::kChanges);
  }
  return heuristics::beside(std::move(size), watcher->make(watching.parameters));
}

bool decides_size(const RunnerSettings& settings) {
  return settings.name != kFixedSize || !settings.outside.library.empty() || !settings.outside.program.empty();
}

std::string display_name(const RunnerSettings& settings) {
  const Outside& outside = settings.outside;
  if (!outside.library.empty()) return std::filesystem::path(outside.library).filename().string();
  if (outside.program.empty()) return settings.name;
  std::string words;
  for (const std::string& word : outside.program) words += (words.empty() ? "" : " ") + word;
  return words;
}

}  // namespace elastictrain::policy
