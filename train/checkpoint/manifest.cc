#include "train/checkpoint/manifest.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "train/checkpoint/checksum.h"

namespace elastictrain::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kSeal = "seal";
constexpr int kMaxDepth = 8;

std::string to_hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string dump(const json& object, int indent) {
  return object.dump(indent, ' ', false, json::error_handler_t::replace);
}

// Keys are sorted and numbers have one form, so the text without white space represents the content.
std::string seal_of(const json& object) {
  const std::string text = dump(object, -1);
  return checksum_of(std::as_bytes(std::span(text)));
}

std::string sealed(json object) {
  object[kSeal] = seal_of(object);
  return dump(object, 2) + "\n";
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

// nullopt: it is not hexadecimal.
std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view digits) {
  std::vector<std::byte> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const end = digits.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, value, 16).ptr != end) return std::nullopt;
    bytes[i] = static_cast<std::byte>(value);
  }
  return digits.size() % 2 == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

json named_values(std::span<const state::EarlyValue> values) {
  json list = json::array();
  for (const auto& value : values) list.push_back({value.name, to_hex(value.bytes)});
  return list;
}

json pairs(std::span<const Fence> lineage) {
  json list = json::array();
  for (const auto& fence : lineage) list.push_back({fence.generation, fence.first_step});
  return list;
}

// Reads fields and keeps the first error.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  std::uint64_t number(const char* key, std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
    const json* value = find(key);
    if (value == nullptr || !value->is_number_unsigned() || value->get<std::uint64_t>() > max) return complain(key), 0;
    return value->get<std::uint64_t>();
  }
  double real(const char* key) {
    const json* value = find(key);
    const bool good = value != nullptr && value->is_number() && std::isfinite(value->get<double>());
    if (!good) return complain(key), 0.0;
    return value->get<double>();
  }
  std::string text(const char* key) {
    const json* value = find(key);
    if (value == nullptr || !value->is_string()) return complain(key), std::string();
    return value->get<std::string>();
  }
  std::uint64_t hex(const char* key) {
    const std::string digits = text(key);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() != 16) complain(key);
    return value;
  }
  // A list of pairs of numbers; calls take(first, second).
  template <class F>
  void pairs(const char* key, F take) {
    const json* list = find(key);
    if (list == nullptr || !list->is_array()) return complain(key);
    for (const json& pair : *list) {
      const bool good =
          pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
      if (!good) return complain(key);
      take(pair[0].get<std::uint64_t>(), pair[1].get<std::uint64_t>());
    }
  }
  // A list of [name, hexadecimal digits]; none if there is no such key.
  std::vector<state::EarlyValue> values(const char* key) {
    const json* list = find(key);
    if (list == nullptr) return {};
    if (!list->is_array()) return complain(key), std::vector<state::EarlyValue>();
    std::vector<state::EarlyValue> values;
    for (const json& entry : *list) {
      const bool good = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
      const auto bytes = good ? bytes_of_hex(entry[1].get<std::string>()) : std::nullopt;
      if (!bytes) return complain(key), std::vector<state::EarlyValue>();
      values.push_back({entry[0].get<std::string>(), *bytes});
    }
    return values;
  }
  Fields object(const char* key) {
    const json* value = find(key);
    if (value == nullptr || !value->is_object()) complain(key);
    static const json kNothing = json::object();
    return Fields(value == nullptr ? kNothing : *value);
  }

  void complain(const char* key) {
    if (complaint_.empty()) complaint_ = key;
  }
  void adopt(const Fields& part) {
    if (complaint_.empty()) complaint_ = part.complaint_;
  }
  Status status() const {
    if (complaint_.empty()) return {};
    return Error{ErrorCode::kInvalid, "its \"" + complaint_ + "\" is missing or invalid"};
  }

 private:
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  std::string complaint_;
};

// The object behind the seal, without it.
Result<json> open_sealed(std::span<const std::byte> text, std::string_view kind) {
  if (text.size() > kMaxManifestBytes) return Error{ErrorCode::kInvalid, "it is too long for a manifest"};
  const auto* begin = reinterpret_cast<const char*>(text.data());
  // Our manifests are flat. Serializing a deep one for its seal would take as much stack as its author chose.
  bool deep = false;
  const auto watch_depth = [&](int depth, json::parse_event_t, json&) {
    return deep = deep || depth > kMaxDepth, !deep;
  };
  json object = json::parse(begin, begin + text.size(), watch_depth, false);
  if (deep) return Error{ErrorCode::kInvalid, "it is not the expected kind of file"};
  if (!object.is_object()) return Error{ErrorCode::kInvalid, "it is not JSON, or truncated"};
  Fields fields(object);
  const auto format = fields.number("format");
  const std::string is = fields.text("kind");
  const std::string seal = fields.text(kSeal);
  if (!fields.status()) return fields.status().error();
  if (format > kFormat) {
    return Error{ErrorCode::kRefused, "it has format " + std::to_string(format) +
                                          ", which a newer version of elastictrain wrote; this one reads up to " +
                                          std::to_string(kFormat)};
  }
  object.erase(kSeal);
  if (is != kind || format == 0) return Error{ErrorCode::kInvalid, "it is not the expected kind of file"};
  if (seal != seal_of(object)) return Error{ErrorCode::kInvalid, "it was changed or damaged: its seal does not match"};
  return object;
}

json of_progress(const state::Progress& progress) {
  json returned = json::array();
  for (const auto& interval : progress.sampler.returned) returned.push_back({interval.first, interval.count});
  const auto& sampler = progress.sampler;
  const auto& rate = progress.learning_rate;
  return {{"step", progress.committed_step},
          {"samples_used", progress.samples_used},
          {"generation_base", progress.generation_base},
          {"epoch", sampler.epoch},
          {"sampler", {{"seed", sampler.seed}, {"cursor", sampler.cursor}, {"returned", returned}}},
          {"learning_rate",
           {{"factor", rate.factor()},
            {"from", rate.from},
            {"to", rate.to},
            {"length_steps", rate.length_steps},
            {"done_steps", rate.done_steps}}}};
}

state::Progress progress_of(Fields& fields) {
  constexpr std::uint64_t k32Bits = std::numeric_limits<std::uint32_t>::max();
  state::Progress progress;
  progress.committed_step = fields.number("step");
  progress.samples_used = fields.number("samples_used");
  progress.generation_base = fields.number("generation_base");
  progress.sampler.epoch = fields.number("epoch");
  Fields sampler = fields.object("sampler");
  progress.sampler.seed = sampler.number("seed");
  progress.sampler.cursor = sampler.number("cursor");
  sampler.pairs("returned", [&](auto first, auto count) { progress.sampler.returned.push_back({first, count}); });
  if (!state::is_well_formed(progress.sampler)) sampler.complain("returned");
  Fields rate = fields.object("learning_rate");
  progress.learning_rate.from = rate.real("from");
  progress.learning_rate.to = rate.real("to");
  progress.learning_rate.length_steps = static_cast<std::uint32_t>(rate.number("length_steps", k32Bits));
  progress.learning_rate.done_steps = static_cast<std::uint32_t>(rate.number("done_steps", k32Bits));
  fields.adopt(sampler);
  fields.adopt(rate);
  return progress;
}

bool is_checksum(std::string_view digits) {
  return digits.size() == 32 && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  json object = of_progress(manifest.progress);
  object.update({{"format", kFormat},
                 {"kind", "checkpoint"},
                 {"run", manifest.run},
                 {"library_version", manifest.library_version},
                 {"generation", manifest.identity.generation},
                 {"world_size", manifest.world_size},
                 {"sample_count", manifest.sample_count},
                 {"layout", to_hex(manifest.layout_hash)},
                 {"data", {{"bytes", manifest.data_bytes}, {"xxh3_128", manifest.data_checksum}}},
                 {"early", named_values(manifest.early)},
                 {"lineage", pairs(manifest.lineage)}});
  if (!manifest.attachments.empty()) object["attachments"] = named_values(manifest.attachments);
  // The round trip replaces text that is not UTF-8 by what dump() writes for it, so that the seal matches the file.
  return sealed(json::parse(dump(object, -1)));
}

std::string to_json(const FenceRecord& record) {
  const json object{{"format", kFormat},
                    {"kind", "fence"},
                    {"run", record.run},
                    {"generation", record.fence.generation},
                    {"first_step", record.fence.first_step},
                    {"lineage", pairs(record.lineage)}};
  return sealed(json::parse(dump(object, -1)));
}

Result<Manifest> parse_manifest(std::span<const std::byte> text) {
  const auto object = open_sealed(text, "checkpoint");
  if (!object) return object.error();
  Fields fields(*object);
  Manifest manifest;
  manifest.run = fields.text("run");
  manifest.library_version = fields.text("library_version");
  manifest.world_size = static_cast<std::uint32_t>(fields.number("world_size", 1U << 31));
  manifest.sample_count = fields.number("sample_count");
  manifest.progress = progress_of(fields);
  manifest.identity = {fields.number("generation"), manifest.progress.committed_step};
  manifest.layout_hash = fields.hex("layout");
  Fields data = fields.object("data");
  manifest.data_bytes = data.number("bytes");
  manifest.data_checksum = data.text("xxh3_128");
  if (!is_checksum(manifest.data_checksum)) data.complain("xxh3_128");
  fields.adopt(data);
  fields.pairs("lineage", [&](auto generation, auto step) { manifest.lineage.push_back({generation, step}); });
  manifest.early = fields.values("early");
  manifest.attachments = fields.values("attachments");
  const auto& sampler = manifest.progress.sampler;
  if (manifest.sample_count != 0 && sampler.cursor > manifest.sample_count) fields.complain("sampler");
  if (auto status = fields.status(); !status) return status.error();
  return manifest;
}

Result<FenceRecord> parse_fence(std::span<const std::byte> text) {
  const auto object = open_sealed(text, "fence");
  if (!object) return object.error();
  Fields fields(*object);
  FenceRecord record{{fields.number("generation"), fields.number("first_step")}, {}, fields.text("run")};
  fields.pairs("lineage", [&](auto generation, auto step) { record.lineage.push_back({generation, step}); });
  if (auto status = fields.status(); !status) return status.error();
  return record;
}

}  // namespace elastictrain::checkpoint
