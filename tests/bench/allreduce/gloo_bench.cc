// Gloo in the common timing loop: --algorithm ring or bcube.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <filesystem>

#include "fork_ranks.h"
#include "options.h"

namespace elastictrain::bench {
namespace {

using GlooAlgorithm = gloo::AllreduceOptions::Algorithm;

int run_rank(const Options& options, const std::string& store_folder, int rank) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(store_folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
  context->connectFullMesh(store, device);
  const auto algorithm = options.algorithm == "bcube" ? GlooAlgorithm::BCUBE : GlooAlgorithm::RING;
  run_loop(options.loop, rank, [&](float* data, std::size_t count) {
    gloo::AllreduceOptions call(context);
    call.setOutput(data, count);
    call.setAlgorithm(algorithm);
    call.setReduceFunction(
        [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<float>(out, a, b, n); });
    gloo::allreduce(call);
  });
  return 0;
}

}  // namespace
}  // namespace elastictrain::bench

int main(int argc, char** argv) {
  using namespace elastictrain::bench;
  const auto options = parse_options(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "gloo_bench_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const int status = fork_ranks(options.ranks, [&](int rank) { return run_rank(options, folder, rank); });
  std::filesystem::remove_all(folder);
  return status;
}
