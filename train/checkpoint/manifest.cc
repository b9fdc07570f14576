#include "train/checkpoint/manifest.h"

#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "supervisor/protocol/json_fields.h"
#include "supervisor/protocol/json_text.h"
#include "train/checkpoint/checksum.h"

namespace elastictrain::checkpoint {

inline std::string to_hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
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
inline std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view digits) {
  std::vector<std::byte> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const end = digits.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, value, 16).ptr != end) return std::nullopt;
    bytes[i] = static_cast<std::byte>(value);
  }
  return digits.size() % 2 == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

// Two numbers in a list of their own.
template <class Pair, auto kFirst, auto kSecond>
struct PairCodec {
  static std::string wanted() { return "a pair of whole numbers"; }
  template <class Json>
  static Json write(const Pair& pair) {
    return Json::array({pair.*kFirst, pair.*kSecond});
  }
  static bool read(const nlohmann::json& found, Pair& pair) {
    const bool good =
        found.is_array() && found.size() == 2 && found[0].is_number_unsigned() && found[1].is_number_unsigned();
    if (good) pair = {found[0].get<std::uint64_t>(), found[1].get<std::uint64_t>()};
    return good;
  }
};

}  // namespace elastictrain::checkpoint

namespace elastictrain::json_fields {

template <>
struct Codec<checkpoint::Fence>
    : checkpoint::PairCodec<checkpoint::Fence, &checkpoint::Fence::generation, &checkpoint::Fence::first_step> {};
template <>
struct Codec<state::Interval>
    : checkpoint::PairCodec<state::Interval, &state::Interval::first, &state::Interval::count> {};

template <>
struct Codec<state::EarlyValue> {
  static std::string wanted() { return "a list of a name and hexadecimal digits"; }
  template <class Json>
  static Json write(const state::EarlyValue& value) {
    return Json::array({value.name, checkpoint::to_hex(value.bytes)});
  }
  static bool read(const nlohmann::json& found, state::EarlyValue& value) {
    if (!found.is_array() || found.size() != 2 || !found[0].is_string() || !found[1].is_string()) return false;
    auto bytes = checkpoint::bytes_of_hex(found[1].get_ref<const std::string&>());
    if (bytes) value = {found[0].get<std::string>(), std::move(*bytes)};
    return bytes.has_value();
  }
};

}  // namespace elastictrain::json_fields

// --- The fields

namespace elastictrain::state {

static constexpr auto kFinite =
    json_fields::within_real(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());

template <class Io, json_fields::Of<LearningRateRamp> T>
void each_field(Io& io, T& rate) {
  if constexpr (!Io::kReads) io.note("factor", rate.factor());
  io("from", rate.from, kFinite);
  io("to", rate.to, kFinite);
  io("length_steps", rate.length_steps);
  io("done_steps", rate.done_steps);
}

template <class Io, json_fields::Of<Progress> T>
void each_field(Io& io, T& progress) {
  auto& sampler = progress.sampler;
  io("step", progress.committed_step);
  io("samples_used", progress.samples_used);
  io("generation_base", progress.generation_base);
  io("epoch", sampler.epoch);
  io.object("sampler", [&sampler](auto& within) {
    within("seed", sampler.seed);
    within("cursor", sampler.cursor);
    within("returned", sampler.returned);
  });
  io("learning_rate", progress.learning_rate);
}

}  // namespace elastictrain::state

namespace elastictrain::checkpoint {

using json_fields::Of;
using json_fields::Reader;
using nlohmann::json;

static constexpr std::uint64_t kMaxWorldSize = 1U << 31;

static bool is_checksum(const std::string& digits) {
  return digits.size() == 32 && digits.find_first_not_of("0123456789abcdef") == std::string::npos;
}
static constexpr json_fields::TextKind kChecksum{"32 hexadecimal digits", is_checksum};

static bool is_hex_number(const std::string& digits) {
  return digits.size() == 16 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}
static constexpr json_fields::TextKind kHexNumber{"16 hexadecimal digits", is_hex_number};

template <class Io, Of<Manifest> T>
void each_field(Io& io, T& manifest) {
  std::string layout = to_hex(manifest.layout_hash);
  each_field(io, manifest.progress);
  io("run", manifest.run);
  io("library_version", manifest.library_version);
  io("generation", manifest.identity.generation);
  io("world_size", manifest.world_size, json_fields::within(0, kMaxWorldSize));
  io("sample_count", manifest.sample_count);
  io("layout", layout, json_fields::text(kHexNumber));
  io.object("data", [&manifest](auto& data) {
    data("bytes", manifest.data_bytes);
    data("xxh3_128", manifest.data_checksum, json_fields::text(kChecksum));
  });
  io("early", manifest.early, json_fields::kOptional);
  io("lineage", manifest.lineage);
  io("attachments", manifest.attachments, json_fields::kUnlessEmpty);
  if constexpr (Io::kReads) std::from_chars(layout.data(), layout.data() + layout.size(), manifest.layout_hash, 16);
}

static void check(Reader& from, Manifest& manifest) {
  const auto& sampler = manifest.progress.sampler;
  manifest.identity.step = manifest.progress.committed_step;
  if (!state::is_well_formed(sampler)) from.wrong("sampler.returned", "ascending intervals below its cursor");
  if (manifest.sample_count != 0 && sampler.cursor > manifest.sample_count) {
    from.wrong("sampler.cursor", "at most sample_count");
  }
}

template <class Io, Of<FenceRecord> T>
void each_field(Io& io, T& record) {
  io("run", record.run);
  io("generation", record.fence.generation);
  io("first_step", record.fence.first_step);
  io("lineage", record.lineage);
}

namespace {

// --- The file

constexpr const char* kSeal = "seal";
constexpr int kMaxDepth = 8;

// Keys are sorted and numbers have one form, so the text without white space represents the content.
std::string seal_of(const json& object) {
  const std::string text = json_text(object);
  return checksum_of(std::as_bytes(std::span(text)));
}

template <class Content>
std::string sealed(const Content& content, const char* kind) {
  json object = json_fields::json_of(content);
  object["format"] = kFormat;
  object["kind"] = kind;
  // The round trip replaces text that is not UTF-8 by what is written for it, so that the seal matches the file.
  object = parse_json(json_text(object));
  object[kSeal] = seal_of(object);
  return json_text(object, 2) + "\n";
}

struct Cover {
  std::uint64_t format = 0;
  std::string kind, seal;
};
template <class Io, Of<Cover> T>
void each_field(Io& io, T& cover) {
  io("format", cover.format);
  io("kind", cover.kind);
  io(kSeal, cover.seal);
}

Error wrong_field(const std::string& problem) {
  return {ErrorCode::kInvalid, "its " + problem};
}

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
  Cover cover;
  std::string problem;
  Reader(object, "", problem).fields(cover);
  if (!problem.empty()) return wrong_field(problem);
  if (cover.format > kFormat) {
    return Error{ErrorCode::kRefused, "it has format " + std::to_string(cover.format) +
                                          ", which a newer version of elastictrain wrote; this one reads up to " +
                                          std::to_string(kFormat)};
  }
  object.erase(kSeal);
  if (cover.kind != kind || cover.format == 0) {
    return Error{ErrorCode::kInvalid, "it is not the expected kind of file"};
  }
  if (cover.seal != seal_of(object)) {
    return Error{ErrorCode::kInvalid, "it was changed or damaged: its seal does not match"};
  }
  return object;
}

template <class Content>
Result<Content> opened(std::span<const std::byte> text, std::string_view kind) {
  const auto object = open_sealed(text, kind);
  if (!object) return object.error();
  Content content;
  std::string problem;
  Reader(*object, "", problem).fields(content);
  if (!problem.empty()) return wrong_field(problem);
  return content;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  return sealed(manifest, "checkpoint");
}

std::string to_json(const FenceRecord& record) {
  return sealed(record, "fence");
}

Result<Manifest> parse_manifest(std::span<const std::byte> text) {
  return opened<Manifest>(text, "checkpoint");
}

Result<FenceRecord> parse_fence(std::span<const std::byte> text) {
  return opened<FenceRecord>(text, "fence");
}

}  // namespace elastictrain::checkpoint
