#include "supervisor/control/control_request.h"

#include <limits>
#include <optional>

#include "supervisor/protocol/json_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::control {
namespace {

using Json = nlohmann::json;

std::optional<std::uint32_t> number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

std::optional<std::string> text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) return std::nullopt;
  return found->get<std::string>();
}

Error wrong(const std::string& text) {
  return Error{ErrorCode::kInvalid, text};
}

std::string topology_names() {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += std::string(name) + ", ";
  return names + "or for example 1,1,1";
}

Result<Request> parse_resize(const Json& object, std::uint64_t id) {
  const auto workers = number_in(object, "workers");
  if (!workers) return wrong("resize needs \"workers\", a whole number, or 0 to let the policy decide again");
  core::Resize resize{.request = id, .target = *workers};
  resize.reason = text_in(object, "reason").value_or("requested by a user");
  if (const auto ms = number_in(object, "for_ms")) resize.hold_for = Millis(*ms);
  return Request(core::Event(std::move(resize)));
}

Result<Request> parse_replace(const Json& object, std::uint64_t id) {
  if (const auto rank = number_in(object, "rank")) return Request(core::Event(core::ReplaceWorker{id, *rank}));
  if (auto host = text_in(object, "host")) return Request(core::Event(core::ReplaceHost{id, std::move(*host)}));
  return wrong("replace needs \"rank\", a whole number, or \"host\", a name");
}

Result<Request> parse_drain(const Json& object, std::uint64_t id) {
  if (auto host = text_in(object, "host")) return Request(core::Event(core::DrainHost{id, std::move(*host)}));
  return wrong("drain needs \"host\", a name");
}

Result<Request> parse_undrain(const Json& object, std::uint64_t id) {
  if (auto host = text_in(object, "host")) return Request(core::Event(core::UndrainHost{id, std::move(*host)}));
  return wrong("undrain needs \"host\", a name");
}

Result<Request> parse_topology(const Json& object, std::uint64_t id) {
  const auto text = text_in(object, "topology");
  auto choice = text ? protocol::topology_choice(*text) : std::nullopt;
  if (!choice) return wrong("topology needs \"topology\", its name or every rank's parent: " + topology_names());
  core::UpdatePlan update{.request = id, .reason = "requested by a user"};
  if (choice->parents.empty()) {
    update.topology = choice->topology;
  } else {
    update.parents = std::move(choice->parents);
  }
  return Request(core::Event(std::move(update)));
}

Result<Request> parse_stop(const Json& object, std::uint64_t id) {
  const auto now = object.find("now");
  if (now != object.end() && !now->is_boolean()) return wrong("\"now\" of stop must be true or false");
  if (now != object.end() && now->get<bool>()) return Request(StopNowRequest{});
  return Request(core::Event(core::Stop{id, core::StopCause::kUser}));
}

}  // namespace

Result<Request> parse_request(const std::string& line, std::uint64_t id) {
  const Json object = parse_json(line);
  if (!object.is_object()) return wrong("a request must be one JSON object on one line");
  const auto command = text_in(object, "command");
  if (!command) return wrong("a request needs \"command\"");
  if (*command == "status") return Request(StatusRequest{});
  if (*command == "resize") return parse_resize(object, id);
  if (*command == "replace") return parse_replace(object, id);
  if (*command == "drain") return parse_drain(object, id);
  if (*command == "undrain") return parse_undrain(object, id);
  if (*command == "topology") return parse_topology(object, id);
  if (*command == "stop") return parse_stop(object, id);
  return wrong("unknown command '" + *command + "'; known: status, resize, replace, drain, undrain, topology, stop");
}

std::string answer_line(bool ok, const std::string& text) {
  return std::string("{\"ok\":") + (ok ? "true" : "false") + ",\"text\":" + quoted_json(text) + "}";
}

}  // namespace elastictrain::control
