// The vendor's own libraries, if they are installed, as far as they work without a GPU.
#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "tests/skip.h"
#include "train/builtin/cuda/engine.h"
#include "train/comm/nccl/unique_id_helper.h"
#include "train/device/kernel_module.h"

namespace elastictrain::device {
namespace {

void compile_for_all(const char* text) {
  for (const char* architecture : {"sm_75", "sm_80", "sm_90", "sm_100"}) {
    CAPTURE(architecture);
    const auto code = compile_kernels(text, architecture);
    if (!code && code.error().code == ErrorCode::kUnavailable) {
      elastictrain::tests::skip_aloud(code.error().message);
      return;
    }
    const std::string complaint = code.ok() ? "" : code.error().message;
    CAPTURE(complaint);
    REQUIRE(code.ok());
    CHECK(code->size() > 1000);
  }
}

TEST_CASE("the real compiler takes the communicator's kernels for every architecture from Turing on") {
  compile_for_all(kCommunicatorKernels);
}

TEST_CASE("and the trainer's") {
  compile_for_all(train::kTrainerKernels);
}

TEST_CASE("for an architecture that the compiler does not know, it makes portable code for the newest that it knows") {
  const auto code = compile_kernels(kCommunicatorKernels, "sm_999");
  if (!code && code.error().code == ErrorCode::kUnavailable) {
    elastictrain::tests::skip_aloud(code.error().message);
    return;
  }
  REQUIRE(code.ok());
  CHECK(std::string(code->begin(), code->end()).find(".target sm_") != std::string::npos);
}

TEST_CASE("what the compiler does not like about a text is passed on") {
  const auto code = compile_kernels("ET_KERNEL(broken)(float* x) { x[0] = unknown; }", "sm_90");
  REQUIRE_FALSE(code.ok());
  const bool reported =
      code.error().code == ErrorCode::kUnavailable || code.error().message.find("unknown") != std::string::npos;
  CHECK(reported);
}

TEST_CASE("the real NCCL makes ids in the helper, and they differ") {
  const auto nccl = comm::NcclLibrary::get();
  if (!nccl) {
    elastictrain::tests::skip_aloud(nccl.error().message);
    return;
  }
  CHECK((*nccl)->version >= 21800);
  const comm::CancelToken never;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto helper = comm::UniqueIdHelper::start(comm::unique_id_command(), 2, never, until);
  const std::string complaint = helper.ok() ? "" : helper.error().message;
  CAPTURE(complaint);
  REQUIRE(helper.ok());
  REQUIRE(helper->ids().size() == 2);
  const auto text = [&](std::size_t i) { return std::string(helper->ids()[i].internal, comm::kNcclIdBytes); };
  CHECK(text(0) != text(1));
}

}  // namespace
}  // namespace elastictrain::device
