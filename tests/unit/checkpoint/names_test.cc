#include "train/checkpoint/lineage.h"

#include <doctest/doctest.h>

namespace elastictrain::checkpoint {
namespace {

TEST_CASE("names tell what they are") {
  const Identity identity{2, 40};
  CHECK(data_name(identity) == "step-40.gen-2.safetensors");
  CHECK(manifest_name(identity) == "step-40.gen-2.json");
  CHECK(fence_name(3) == "fence.gen-3.json");
  CHECK(parse_name(data_name(identity))->kind == FileKind::kData);
  CHECK(parse_name(manifest_name(identity))->kind == FileKind::kManifest);
  CHECK(parse_name(manifest_name(identity))->identity == identity);
  CHECK(parse_name(fence_name(3))->kind == FileKind::kFence);
  CHECK(parse_name(fence_name(3))->identity.generation == 3);
}

TEST_CASE("a temporary name identifies writer and content, for any host name") {
  const auto name = temporary_name("step-40.gen-2.json", {2, "node7.example.org", 4711});
  CHECK(name == "step-40.gen-2.json.tmp.gen-2.node7_example_org.4711");
  const auto parsed = parse_name(name);
  REQUIRE(parsed);
  CHECK(parsed->kind == FileKind::kTemporary);
  CHECK(parsed->wanted == "step-40.gen-2.json");
  CHECK(parsed->writer.generation == 2);
  CHECK(parsed->writer.host == harmless("node7.example.org"));
  CHECK(parsed->writer.pid == 4711);
  CHECK(temporary_name("a", {1, "../../etc/passwd", 1}).find('/') == std::string::npos);
}

TEST_CASE("other names belong to no writer") {
  for (const char* name :
       {"", "step-40.safetensors", "step-.gen-1.json", "step-1.gen-.json", "step-1.gen-1.json2", "xstep-1.gen-1.json",
        "step-01.gen-1.json", "step--1.gen-1.json", "step-99999999999999999999.gen-1.json", "fence.gen-1.txt",
        "notes.txt.tmp.gen-1.host.5", "step-1.gen-1.json.tmp.gen-1.host", "step-1.gen-1.json.tmp.gen-x.host.1"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_name(name));
  }
}

}  // namespace
}  // namespace elastictrain::checkpoint
