#include "supervisor/policy/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "supervisor/policy/include/elastictrain/policy.h"
#include "supervisor/policy/outside.h"
#include "supervisor/policy/view_json.h"

namespace elastictrain::policy {
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
