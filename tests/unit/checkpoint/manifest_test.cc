#include "train/checkpoint/manifest.h"

#include <doctest/doctest.h>

#include "train/checkpoint/checksum.h"

namespace elastictrain::checkpoint {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Manifest example() {
  Manifest manifest{.identity = {(1ULL << 60) + 7, 120},
                    .run = "vision-7",
                    .library_version = "0.1.0",
                    .world_size = 3,
                    .sample_count = 60'000,
                    .layout_hash = 0xfedcba9876543210ULL,
                    .data_bytes = 4321,
                    .data_checksum = checksum_of({}),
                    .lineage = {{1, 1}, {3, 80}},
                    .early = {{"layout", {std::byte{0}, std::byte{255}, std::byte{16}}}, {"empty", {}}},
                    .attachments = {{"record", {std::byte{9}}}}};
  auto& progress = manifest.progress;
  progress.committed_step = 120;
  progress.samples_used = 99'999;
  progress.generation_base = 1ULL << 60;
  progress.sampler = {.seed = ~0ULL, .epoch = 2, .cursor = 5000, .returned = {{100, 32}, {4000, 1}}};
  progress.learning_rate = {.from = 0.1, .to = 1.0 / 3.0, .length_steps = 50, .done_steps = 7};
  return manifest;
}

TEST_CASE("a manifest comes back as it was written") {
  const auto manifest = example();
  const auto parsed = parse_manifest(bytes_of(to_json(manifest)));
  REQUIRE(parsed.ok());
  CHECK(parsed->identity == manifest.identity);
  CHECK(parsed->run == manifest.run);
  CHECK(parsed->world_size == 3);
  CHECK(parsed->sample_count == 60'000);
  CHECK(parsed->layout_hash == manifest.layout_hash);
  CHECK(parsed->data_bytes == 4321);
  CHECK(parsed->data_checksum == manifest.data_checksum);
  CHECK(parsed->lineage == manifest.lineage);
  CHECK(parsed->early == manifest.early);
  CHECK(parsed->attachments == manifest.attachments);
  CHECK(parsed->progress.samples_used == 99'999);
  CHECK(parsed->progress.generation_base == 1ULL << 60);
  CHECK(parsed->progress.sampler == manifest.progress.sampler);
  CHECK(parsed->progress.learning_rate.to == 1.0 / 3.0);
  CHECK(parsed->progress.learning_rate.done_steps == 7);
  CHECK(to_json(*parsed) == to_json(manifest));
}

// The bytes that earlier versions wrote and sealed.
TEST_CASE("the text of a manifest and of a fence is as ever") {
  const auto checksum_of_text = [](const std::string& text) { return checksum_of(bytes_of(text)); };
  CHECK(checksum_of_text(to_json(example())) == "f24e030e9e08743b1936b6546ce83641");
  CHECK(checksum_of_text(to_json(FenceRecord{{5, 41}, {{2, 10}, {5, 41}}, "run"})) ==
        "aad85d9d5552e4fedbd1b7e03290e276");
}

TEST_CASE("a run's name may be anything") {
  auto manifest = example();
  manifest.run = "gr\xc3\xbc\xc3\x9f \"e\"\n\xff\xfe";
  CHECK(parse_manifest(bytes_of(to_json(manifest))).ok());
}

TEST_CASE("a manifest that is cut off anywhere is refused") {
  const auto text = to_json(example());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    CHECK_FALSE(parse_manifest(bytes_of(std::string_view(text).substr(0, length))).ok());
  }
}

TEST_CASE("a manifest with any flipped bit is refused, or means the same") {
  const auto text = to_json(example());
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    auto damaged = text;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    const auto parsed = parse_manifest(bytes_of(damaged));
    if (parsed) CHECK(to_json(*parsed) == text);
  }
}

TEST_CASE("a number changed by hand is noticed") {
  auto text = to_json(example());
  const auto at = text.find("\"step\": 120");
  REQUIRE(at != std::string::npos);
  text.replace(at, 11, "\"step\": 121");
  const auto parsed = parse_manifest(bytes_of(text));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().message.find("seal") != std::string::npos);
}

TEST_CASE("a newer format is named as such") {
  auto text = to_json(example());
  const auto at = text.find("\"format\": 1");
  REQUIRE(at != std::string::npos);
  text.replace(at, 11, "\"format\": 9");
  CHECK(parse_manifest(bytes_of(text)).error().code == ErrorCode::kRefused);
}

TEST_CASE("sealed nonsense is refused") {
  auto manifest = example();
  manifest.progress.sampler.cursor = 60'001;
  CHECK_FALSE(parse_manifest(bytes_of(to_json(manifest))).ok());
  manifest = example();
  manifest.progress.sampler.returned = {{4999, 2}};
  CHECK_FALSE(parse_manifest(bytes_of(to_json(manifest))).ok());
  manifest = example();
  manifest.data_checksum = "abc";
  CHECK_FALSE(parse_manifest(bytes_of(to_json(manifest))).ok());
}

TEST_CASE("a tower of brackets costs no stack") {
  std::string text = R"({"format": 1, "kind": "checkpoint", "seal": "", "x": )" + std::string(1 << 20, '[');
  CHECK_FALSE(parse_manifest(bytes_of(text)).ok());
  text += std::string(1 << 20, ']') + "}";
  CHECK_FALSE(parse_manifest(bytes_of(text)).ok());
}

TEST_CASE("a fence comes back as it was written and is no manifest") {
  const FenceRecord record{{5, 41}, {{2, 10}, {5, 41}}, "run"};
  const auto text = to_json(record);
  const auto parsed = parse_fence(bytes_of(text));
  REQUIRE(parsed.ok());
  CHECK(parsed->fence == record.fence);
  CHECK(parsed->lineage == record.lineage);
  CHECK_FALSE(parse_manifest(bytes_of(text)).ok());
  CHECK_FALSE(parse_fence(bytes_of(to_json(example()))).ok());
}

TEST_CASE("the checksum is the one that xxh128sum prints") {
  CHECK(checksum_of({}) == "99aa06d3014798d86001c324468d497f");
}

}  // namespace
}  // namespace elastictrain::checkpoint
