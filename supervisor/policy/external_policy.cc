#include "supervisor/policy/external_policy.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "supervisor/policy/include/elastictrain/policy.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::policy {
namespace {

constexpr std::size_t kMaxCodeBytes = 64;
constexpr std::size_t kMaxNumbers = 64;
constexpr double kMaxFactor = 1e6;
constexpr std::size_t kMaxSizes = 1024;  // whose goodput is said
constexpr double kMaxRate = 1e15;
constexpr std::string_view kOurFields[] = {"seq",  "t",      "up",      "event",   "policy",
                                           "code", "reason", "workers", "replace", "because"};

bool can_run(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

Status check_program(const std::string& key, const std::string& name) {
  const Error missing{ErrorCode::kInvalid,
                      key + ": there is no executable program \"" + name + "\"" +
                          (name.find('/') == std::string::npos ? " in PATH; give its path, or its interpreter before it"
                                                               : "; check the path and its x permission")};
  if (name.find('/') != std::string::npos) return can_run(name) ? Status() : Status(missing);
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/bin:/usr/bin" : path;
  for (;;) {
    const std::size_t colon = rest.find(':');
    if (can_run(std::string(rest.substr(0, colon)) + "/" + name)) return {};
    if (colon == std::string_view::npos) return missing;
    rest.remove_prefix(colon + 1);
  }
}

// Its numbers are stored in the journal's record next to our own fields.
void make_fit(heuristics::Reason& reason) {
  shorten(reason.code, kMaxCodeBytes);
  shorten(reason.text, kMaxReasonBytes);
  if (reason.numbers.size() > kMaxNumbers) reason.numbers.resize(kMaxNumbers);
  for (auto& [name, value] : reason.numbers) {
    shorten(name, kMaxCodeBytes);
    std::replace_if(
        name.begin(), name.end(), [](unsigned char byte) { return std::isalnum(byte) == 0; }, '_');
    const bool is_ours = std::find(std::begin(kOurFields), std::end(kOurFields), name) != std::end(kOurFields);
    if (is_ours || name.empty()) name += "_";
  }
}

// A policy with a mistake must not set a batch or a rate that no training survives.
Status check_bounds(const heuristics::JobDecision& job) {
  const auto batch = job.per_worker_batch;
  if (batch && (*batch == 0 || *batch > limits::kMaxBatch)) {
    return Error{ErrorCode::kInvalid, "per_worker_batch is " + std::to_string(*batch) + "; it must be from 1 to " +
                                          std::to_string(limits::kMaxBatch)};
  }
  const auto factor = job.learning_rate_factor;
  if (factor && !(*factor >= 1 / kMaxFactor && *factor <= kMaxFactor)) {
    return Error{ErrorCode::kInvalid,
                 "learning_rate_factor is " + std::to_string(*factor) + "; it must be from 0.000001 to 1000000"};
  }
  const heuristics::GoodputAt* before = nullptr;
  for (const auto& at : job.goodput) {
    const bool rises = at.workers > (before == nullptr ? 0 : before->workers);
    if (!rises || !(at.rate > 0 && at.rate <= kMaxRate) || job.goodput.size() > kMaxSizes) {
      return Error{ErrorCode::kInvalid, "goodput must be at most 1024 rates above 0, by rising workers from 1 on"};
    }
    before = &at;
  }
  return {};
}

struct NoMemory final : heuristics::PolicyState {
  std::unique_ptr<PolicyState> clone() const override { return std::make_unique<NoMemory>(); }
};

class Relay final : public heuristics::Policy {
 public:
  explicit Relay(std::shared_ptr<const heuristics::Decision> next) : next_(std::move(next)) {}
  std::unique_ptr<heuristics::PolicyState> initial_state() const override { return std::make_unique<NoMemory>(); }
  heuristics::Decision decide(const heuristics::ClusterView&, heuristics::PolicyState&,
                              heuristics::Rng&) const override {
    return *next_;
  }

 private:
  std::shared_ptr<const heuristics::Decision> next_;
};

}  // namespace

Result<heuristics::Decision> read_decision(std::string_view text) {
  auto decision = decision_from_json(text);
  if (!decision.ok()) return decision;
  if (decision->jobs.size() != 1) {
    return Error{ErrorCode::kInvalid, "the decision must have one entry in jobs, as the view has, not " +
                                          std::to_string(decision->jobs.size())};
  }
  heuristics::JobDecision& job = decision->jobs.front();
  if (const Status bounded = check_bounds(job); !bounded.ok()) return bounded.error();
  if (job.reason.code.empty()) job.reason.code = job.reason.text.empty() ? "no_reason" : "own_reason";
  if (job.reason.text.empty()) job.reason.text = job.reason.code;
  make_fit(job.reason);
  for (auto& replacement : job.replacements) make_fit(replacement.reason);
  return decision;
}

std::string short_name(const Outside& outside) {
  const auto file_name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  if (!outside.library.empty()) return file_name(outside.library);
  const auto is_path = [](const std::string& word) { return word.find('/') != std::string::npos; };
  const auto& words = outside.program;
  if (words.size() < 2 || words[1].starts_with("-")) return words.empty() ? "" : file_name(words[0]);
  const std::string extension = std::filesystem::path(words[1]).extension().string();
  const bool has_extension = extension.size() > 1 && std::isalpha(static_cast<unsigned char>(extension[1])) != 0;
  const bool is_script = has_extension || (is_path(words[1]) && !is_path(words[0]));
  return file_name(words[is_script ? 1 : 0]);
}

heuristics::Decision failed_decision(const std::string& why) {
  heuristics::JobDecision keep;
  keep.reason = {kPolicyFailed, why + "; the size stays", {}};
  return {{keep}};
}

std::unique_ptr<heuristics::Policy> relay(std::shared_ptr<const heuristics::Decision> next) {
  return std::make_unique<Relay>(std::move(next));
}

Status check_outside(const Outside& outside, std::uint64_t seed) {
  if (!outside.program.empty()) return check_program(outside.key, outside.program.front());
  if (outside.library.empty()) return {};
  const auto library = load_library(outside.library, outside.argument, seed);
  return library.ok() ? Status() : Status(library.error());
}

namespace {

using Api = elastictrain_policy_v1;

struct Answer {
  std::optional<std::string> text;
  bool twice = false;
};

void say(void* context, const char* text, std::size_t bytes) {
  Answer& answer = *static_cast<Answer*>(context);
  answer.twice = answer.text.has_value();
  answer.text = text == nullptr ? std::string() : std::string(text, bytes);
}

class Memory final : public heuristics::PolicyState {
 public:
  Memory(const Api& api, const std::string& argument, std::uint64_t seed) : text(api, argument, seed) {}
  std::unique_ptr<PolicyState> clone() const override { panic("a shared object's memory cannot be copied"); }

  LibraryText text;
};

class Library final : public heuristics::Policy {
 public:
  Library(const Api& api, std::string argument, std::uint64_t seed)
      : api_(api), argument_(std::move(argument)), seed_(seed) {}

  std::unique_ptr<heuristics::PolicyState> initial_state() const override {
    return std::make_unique<Memory>(api_, argument_, seed_);
  }

  heuristics::Decision decide(const heuristics::ClusterView& view, heuristics::PolicyState& state,
                              heuristics::Rng&) const override {
    const auto answer = static_cast<Memory&>(state).text.decide(to_json(view));
    if (!answer.ok()) return failed_decision("the library " + answer.error().message);
    auto decision = read_decision(*answer);
    return decision.ok() ? std::move(*decision)
                         : failed_decision("the library returned an invalid decision: " + decision.error().message);
  }

 private:
  const Api& api_;
  std::string argument_;
  std::uint64_t seed_;
};

Error wrong(const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalid, "policy.library = " + path + ": " + what};
}

bool is_complete(const Api& api) {
  return api.create != nullptr && api.decide != nullptr && api.destroy != nullptr;
}

// dlerror() often begins with the path.
std::string load_error(const std::string& path) {
  const char* text = ::dlerror();
  std::string reason = text == nullptr ? "it cannot be loaded" : text;
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return reason;
}

Result<const Api*> load(const std::string& path) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(path, failed).string();
  if (!std::filesystem::exists(whole, failed)) {
    return wrong(
        path,
        "there is no such file; build it, or correct the path (it is relative to the directory where the run starts)");
  }
  void* object = ::dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return wrong(path, load_error(whole) + "; it must be a shared object for this machine");
  const auto entry = reinterpret_cast<decltype(&elastictrain_policy)>(::dlsym(object, "elastictrain_policy"));
  if (entry == nullptr) {
    return wrong(path, "it exports no elastictrain_policy; include elastictrain/policy.h and define that function");
  }
  const Api* api = entry(ELASTICTRAIN_POLICY_VERSION);
  if (api == nullptr || api->version != ELASTICTRAIN_POLICY_VERSION) {
    const std::string has = api == nullptr ? "has none of that version" : "has version " + std::to_string(api->version);
    return wrong(path, "version " + std::to_string(ELASTICTRAIN_POLICY_VERSION) + " of the interface is required, it " +
                           has + "; build it with this release's elastictrain/policy.h");
  }
  if (!is_complete(*api)) return wrong(path, "create, decide and destroy must all be set");
  return api;
}

}  // namespace

LibraryText::LibraryText(const Api& api, const std::string& argument, std::uint64_t seed) : api_(api) {
  Answer answer;
  handle_ = api_.create(argument.c_str(), seed, say, &answer);
  if (answer.text) refusal_ = ": " + *answer.text;
}

LibraryText::~LibraryText() {
  if (handle_ != nullptr) api_.destroy(handle_);
}

Result<std::string> LibraryText::decide(const std::string& view) {
  if (handle_ == nullptr) return Error{ErrorCode::kInvalid, "returned no state when it was asked again"};
  Answer answer;
  api_.decide(handle_, view.c_str(), view.size(), say, &answer);
  if (!answer.text) return Error{ErrorCode::kInvalid, "returned no decision"};
  if (answer.twice) return Error{ErrorCode::kInvalid, "returned more than one decision for a view"};
  return std::move(*answer.text);
}

Result<std::unique_ptr<LibraryText>> LibraryText::open(const std::string& path, const std::string& argument,
                                                       std::uint64_t seed) {
  const auto api = load(path);
  if (!api.ok()) return api.error();
  auto text = std::make_unique<LibraryText>(**api, argument, seed);
  if (text->handle_ == nullptr) {
    return wrong(path, "it refuses policy.argument = \"" + argument + "\"" + text->refusal_);
  }
  return text;
}

Result<std::unique_ptr<heuristics::Policy>> load_library(const std::string& path, const std::string& argument,
                                                         std::uint64_t seed) {
  const auto text = LibraryText::open(path, argument, seed);
  if (!text.ok()) return text.error();
  return std::unique_ptr<heuristics::Policy>(std::make_unique<Library>((*text)->api_, argument, seed));
}

}  // namespace elastictrain::policy
