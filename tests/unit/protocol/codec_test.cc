#include "supervisor/protocol/codec.h"

#include <doctest/doctest.h>

#include <msgpack.hpp>
#include <random>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::protocol {
namespace {

std::string body_of(const std::string& frame) {
  return frame.substr(kFrameHeaderBytes);
}

GenerationPlan sample_plan() {
  GenerationPlan plan;
  plan.generation = 7;
  plan.previous = 6;
  plan.kind = ChangeKind::kReplace;
  plan.reason = "rank 1 asked for";
  plan.token = {1, 2, 3, 255};
  plan.members = {{WorkerId{3}, 0, 0, "a", {"k1", {"127.0.0.1", "::1"}, 4000, "u"}, 32, false},
                  {WorkerId{9}, 1, 1, "b", {"k2", {}, 65535, ""}, 0, true}};
  plan.donors = {WorkerId{3}};
  plan.learning_rate_factor = 1.5;
  plan.build_deadline_ms = ~std::uint64_t{0};
  return plan;
}

TEST_CASE("codec: a frame starts with the length of its body") {
  const std::string frame = encode_frame(WorkerDown{Commit{5}});
  CHECK(frame_body_bytes(frame.data()) == frame.size() - kFrameHeaderBytes);
}

// A worker may say any number, and its agent says it again.
TEST_CASE("codec: numbers at the ends of the integers survive the round trip") {
  for (const double value : {0x1p64, -0x1p64, 0x1p63, -0x1p63, 0.5, -0.0, 0x1.fffffffffffffp1023}) {
    const auto decoded = decode_body<WorkerToAgent>(body_of(encode_frame(WorkerToAgent{WorkerSwap{1, value, 2}})));
    REQUIRE(decoded.ok());
    CHECK(std::get<WorkerSwap>(*decoded).gap_us == value);
  }
}

TEST_CASE("codec: a plan survives the round trip with every field") {
  const GenerationPlan plan = sample_plan();
  auto decoded = decode_body<WorkerDown>(body_of(encode_frame(WorkerDown{Prepare{plan}})));
  REQUIRE(decoded.ok());
  const GenerationPlan& got = std::get<Prepare>(*decoded).plan;
  CHECK(got.generation == 7);
  CHECK(got.kind == ChangeKind::kReplace);
  CHECK(got.token == plan.token);
  REQUIRE(got.members.size() == 2);
  CHECK(got.members[0].endpoint.addresses == plan.members[0].endpoint.addresses);
  CHECK(got.members[1].worker == WorkerId{9});
  CHECK(got.members[1].endpoint.port == 65535);
  CHECK(got.members[1].joiner);
  CHECK(got.donors == plan.donors);
  CHECK(got.learning_rate_factor == 1.5);
  CHECK(got.build_deadline_ms == ~std::uint64_t{0});
}

TEST_CASE("codec: what a swap cost comes through") {
  auto decoded = decode_body<WorkerToAgent>(body_of(encode_frame(WorkerToAgent{WorkerSwap{3, 275'000.5, 250'000}})));
  REQUIRE(decoded.ok());
  const auto& swap = std::get<WorkerSwap>(*decoded);
  CHECK(swap.generation == 3);
  CHECK(swap.gap_us == 275'000.5);
  CHECK(swap.step_us == 250'000);
}

TEST_CASE("codec: a worker's message travels inside the agent's") {
  const WorkerNote note{"accuracy", "0.9"};
  auto decoded = decode_body<AgentUp>(body_of(encode_frame(AgentUp{FromWorker{WorkerId{4}, note}})));
  REQUIRE(decoded.ok());
  const auto& from = std::get<FromWorker>(*decoded);
  CHECK(from.worker == WorkerId{4});
  CHECK(std::get<WorkerNote>(from.message).key == "accuracy");
  CHECK(std::get<WorkerNote>(from.message).value == "0.9");
}

TEST_CASE("codec: a heartbeat carries every metric of the list") {
  WorkerHeartbeat beat;
  double next = 1;
  for (const StepMetric& metric : kStepMetrics) beat.mean.*metric.value = next++;
  const auto decoded = decode_body<WorkerToAgent>(body_of(encode_frame(WorkerToAgent{beat})));
  REQUIRE(decoded.ok());
  const StepMetrics& mean = std::get<WorkerHeartbeat>(*decoded).mean;
  next = 1;
  for (const StepMetric& metric : kStepMetrics) CHECK(mean.*metric.value == next++);
}

TEST_CASE("codec: negative numbers, empty messages and secrets keep their values") {
  auto exited = decode_body<AgentUp>(body_of(encode_frame(AgentUp{WorkerExited{WorkerId{1}, -1, 9, {"a", ""}}})));
  REQUIRE(exited.ok());
  CHECK(std::get<WorkerExited>(*exited).exit_code == -1);
  CHECK(std::get<WorkerExited>(*exited).last_error_lines.size() == 2);
  CHECK(decode_body<AgentDown>(body_of(encode_frame(AgentDown{CheckHost{}}))).ok());
  AgentBootstrap bootstrap;
  bootstrap.key.fill(0xee);
  auto decoded = decode_body<Bootstrap>(body_of(encode_frame(Bootstrap{bootstrap})));
  REQUIRE(decoded.ok());
  CHECK(std::get<AgentBootstrap>(*decoded).key == bootstrap.key);
}

TEST_CASE("codec: a shorter message from an older peer leaves the missing fields at their default") {
  msgpack::sbuffer out;
  msgpack::packer<msgpack::sbuffer> packer(out);
  packer.pack_array(2);
  packer.pack(0);
  packer.pack_array(1);
  packer.pack(99);
  auto decoded = decode_body<WorkerToAgent>(std::string_view(out.data(), out.size()));
  REQUIRE(decoded.ok());
  CHECK(std::get<WorkerHello>(*decoded).protocol_version == 99);
  CHECK(std::get<WorkerHello>(*decoded).pid == 0);
}

TEST_CASE("codec: wrong types, unknown alternatives, out-of-range values and trailing bytes are errors") {
  const auto refused = [](auto fill) {
    msgpack::sbuffer out;
    msgpack::packer<msgpack::sbuffer> packer(out);
    fill(packer);
    return !decode_body<WorkerDown>(std::string_view(out.data(), out.size())).ok();
  };
  CHECK(refused([](auto& p) { p.pack(1); }));
  CHECK(refused([](auto& p) {
    p.pack_array(2);
    p.pack(99);
    p.pack_array(0);
  }));
  CHECK(refused([](auto& p) {
    p.pack_array(2);
    p.pack(1);
    p.pack_array(1);
    p.pack(std::string("x"));
  }));
  CHECK(refused([](auto& p) {
    p.pack_array(2);
    p.pack(1);
    p.pack_array(1);
    p.pack(-1);
  }));
  CHECK_FALSE(decode_body<WorkerDown>(body_of(encode_frame(WorkerDown{Commit{5}})) + "x").ok());
  CHECK_FALSE(decode_body<WorkerDown>("").ok());
  GenerationPlan plan = sample_plan();
  plan.kind = static_cast<ChangeKind>(200);
  CHECK_FALSE(decode_body<WorkerDown>(body_of(encode_frame(WorkerDown{Prepare{plan}}))).ok());
}

TEST_CASE("codec: a list that claims more elements than allowed takes no memory") {
  const std::string bomb("\x92\x00\x91\xdd\xff\xff\xff\xff", 8);
  CHECK_FALSE(decode_body<WorkerToAgent>(bomb).ok());
}

TEST_CASE("codec: every truncation and thousands of flipped bits never crash") {
  const std::string body = body_of(encode_frame(WorkerDown{Prepare{sample_plan()}}));
  for (std::size_t n = 0; n < body.size(); ++n) CHECK_FALSE(decode_body<WorkerDown>(body.substr(0, n)).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string mutated = body;
    mutated[random() % mutated.size()] ^= static_cast<char>(1u << (random() % 8));
    (void)decode_body<WorkerDown>(mutated).ok();
  }
}

}  // namespace
}  // namespace elastictrain::protocol
