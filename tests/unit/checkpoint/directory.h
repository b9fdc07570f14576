// Purpose: a checkpoint directory of a test, removed with the object, and a small state to save in it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "train/checkpoint/store.h"

namespace elastictrain::checkpoint::test {

namespace fs = std::filesystem;

// The same tests are run with a directory and with a client program (client.sh), whose places are directories, too.
inline const char* client_program() {
  return ::getenv("ELASTICTRAIN_TEST_CLIENT");
}

inline Store store_at(const std::string& path) {
  const char* const program = client_program();
  return program == nullptr ? Store(path) : Store("dir://" + path, {program, std::chrono::seconds(60)});
}

class Directory {
 public:
  const std::string& path() const { return directory_.path; }
  fs::path operator/(const std::string& name) const { return fs::path(path()) / name; }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) names.insert(entry.path().filename().string());
    return names;
  }
  std::string read(const std::string& name) const { return elastictrain::test::read_file(directory_.file(name)); }
  void write(const std::string& name, const std::string& text) const { directory_.write(name, text); }

 private:
  elastictrain::test::TemporaryDirectory directory_;
};

struct State {
  std::vector<float> weights = std::vector<float>(1000);
  std::vector<float> momentum = std::vector<float>(77);
  state::StateBuffers buffers;
  explicit State(float value = 0) {
    buffers.add("weights", weights.data(), weights.size() * sizeof(float));
    buffers.add("momentum", momentum.data(), momentum.size() * sizeof(float));
    fill(value);
  }
  void fill(float value) {
    std::fill(weights.begin(), weights.end(), value);
    std::fill(momentum.begin(), momentum.end(), -value);
  }
  bool is(float value) const {
    return weights == std::vector<float>(1000, value) && momentum == std::vector<float>(77, -value);
  }
};

inline Writer writer_of(Generation generation) {
  return {generation, "here", ::getpid()};
}

// As a worker of `generation` would write it. Every byte of the state follows from the step.
inline Status save(const Store& store, Identity identity, Lineage lineage = {}) {
  State state(static_cast<float>(identity.step));
  Manifest manifest{.identity = identity, .run = "test", .library_version = "0", .world_size = 2};
  manifest.progress.committed_step = identity.step;
  manifest.layout_hash = state.buffers.layout_hash();
  manifest.lineage = std::move(lineage);
  std::vector<std::byte> data;
  for (const auto& buffer : state.buffers.buffers()) data.insert(data.end(), buffer.data, buffer.data + buffer.bytes);
  const auto header = encode_tensor_header(tensors_of(state.buffers), {});
  return store.write(manifest, *header, data, writer_of(identity.generation));
}

}  // namespace elastictrain::checkpoint::test
