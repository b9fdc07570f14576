// Checkpoints in the background: what training waits for, and what it does not.
#include "train/checkpoint/checkpointer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <thread>

#include "directory.h"
#include "supervisor/protocol/names.h"
#include "tests/masked_memory.h"

namespace elastictrain::checkpoint::test {
namespace {

using std::chrono::milliseconds;

Settings settings_for(const Directory& directory) {
  return {.directory = directory.path(), .keep = 3, .run = "test", .host = "here"};
}

Snapshot snapshot_at(Step step, Generation generation = 1) {
  Snapshot snapshot{.generation = generation, .world_size = 2};
  snapshot.progress.committed_step = step;
  return snapshot;
}

// The value of the loaded state, and its step.
std::pair<Step, float> load_value(const Directory& directory) {
  State state;
  std::vector<std::string> skipped;
  const auto loaded = Store(directory.path()).load_newest(state.buffers, 0, {}, skipped);
  if (!loaded) return {0, 0};
  CHECK(state.is(state.weights[0]));
  return {loaded->manifest.identity.step, state.weights[0]};
}

// Of what went wrong.
std::string keys(const std::vector<Note>& notes) {
  std::string text;
  for (const auto& note : notes) text += note.key == protocol::kCheckpointWritten ? "" : note.key + " ";
  return text;
}

bool wait_until(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST_CASE("tensors have their type and shape in the file, and are aligned for it") {
  Directory directory;
  std::array<char, 3> mask{1, 2, 3};
  std::array<float, 6> weight{1, 2, 3, 4, 5, 6};
  std::array<std::uint16_t, 5> half{7, 8, 9, 10, 11};
  std::array<double, 2> scale{0.5, 0.25};
  state::StateBuffers buffers;
  buffers.add("mask", mask.data(), sizeof mask);
  buffers.add("half", half.data(), sizeof half, nullptr, state::TensorType{"BF16", {5}});
  buffers.add("weight", weight.data(), sizeof weight, nullptr, state::TensorType{"F32", {2, 3}});
  buffers.add("scale", scale.data(), sizeof scale, nullptr, state::TensorType{"F64", {1, 2}});
  Checkpointer(settings_for(directory), buffers).finish(snapshot_at(5));
  const std::string text = directory.read("step-5.gen-1.safetensors");
  const auto header = parse_tensor_header(std::as_bytes(std::span(text)));
  REQUIRE(header.ok());
  std::map<std::string, Tensor> found;
  for (const auto& tensor : header->tensors) found[tensor.name] = tensor;
  CHECK(found["weight"].dtype == "F32");
  CHECK(found["weight"].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(found["mask"].dtype == "U8");
  CHECK(found["scale"].begin % 8 == 0);
  CHECK(found["weight"].begin % 4 == 0);
  CHECK(found["half"].begin % 2 == 0);
  mask = {};
  weight = {};
  half = {};
  scale = {};
  std::vector<std::string> skipped;
  REQUIRE(Store(directory.path()).load_newest(buffers, 0, {}, skipped).ok());
  CHECK(mask == std::array<char, 3>{1, 2, 3});
  CHECK(weight == std::array<float, 6>{1, 2, 3, 4, 5, 6});
  CHECK(half == std::array<std::uint16_t, 5>{7, 8, 9, 10, 11});
  CHECK(scale == std::array<double, 2>{0.5, 0.25});
}

TEST_CASE("a checkpoint holds the state of its step, although training continues at once") {
  Directory directory;
  State state(1);
  Checkpointer checkpointer(settings_for(directory), state.buffers);
  for (Step step = 1; step <= 20; ++step) {
    state.fill(static_cast<float>(step));
    checkpointer.begin(snapshot_at(step));
    checkpointer.await_copy();
    state.fill(-1000);  // the next update
    checkpointer.finish(snapshot_at(step));
    CHECK(load_value(directory) == std::pair<Step, float>{step, static_cast<float>(step)});
  }
  CHECK(keys(checkpointer.take_notes()) == "");
  CHECK(directory.names().size() == 6);
}

TEST_CASE("a checkpoint of a device's memory is the same as one of the host's") {
  Directory directory;
  tests::MaskedMemory port;
  std::vector<std::byte> weights(4000), momentum(77 * 4);
  state::StateBuffers on_device;
  on_device.add("weights", weights.data(), weights.size(), &port);
  on_device.add("momentum", momentum.data(), momentum.size(), &port);
  State on_host(7);
  Checkpointer(settings_for(directory), on_host.buffers).finish(snapshot_at(7));
  std::vector<std::string> skipped;
  REQUIRE(Store(directory.path()).load_newest(on_device, 0, {}, skipped));
  CHECK(*on_device.content_hash() == *on_host.buffers.content_hash());

  Checkpointer from_device(settings_for(directory), on_device);
  from_device.finish(snapshot_at(8));
  CHECK(load_value(directory) == std::pair<Step, float>{8, 7.0F});
  port.fails = true;
  from_device.finish(snapshot_at(9));
  CHECK(load_value(directory).first == 8);
  const auto notes = from_device.take_notes();
  CHECK(keys(notes) == "checkpoint_failed ");
  CHECK(notes.back().text.find("the device is gone") != std::string::npos);
}

TEST_CASE("the last one is on the disk when finish() returns, and is written once") {
  Directory directory;
  State state(7);
  Checkpointer checkpointer(settings_for(directory), state.buffers);
  checkpointer.begin(snapshot_at(7));
  checkpointer.finish(snapshot_at(7));
  CHECK(load_value(directory) == std::pair<Step, float>{7, 7});
  const auto written = fs::last_write_time(directory / "step-7.gen-1.json");
  checkpointer.finish(snapshot_at(7));
  CHECK(fs::last_write_time(directory / "step-7.gen-1.json") == written);
  state.fill(8);
  checkpointer.finish(snapshot_at(8));
  CHECK(load_value(directory) == std::pair<Step, float>{8, 8});
}

// A named pipe in place of the temporary file: opening it blocks until there is a reader, as a dead file server would
// block.
struct DeadDisk {
  DeadDisk(const Directory& directory, Step step)
      : path(directory / temporary_name(data_name({1, step}), {1, "here", ::getpid()})) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  ~DeadDisk() { revive(); }
  void revive() {
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader < 0) return;
    // Waits until the writer has come and gone, or never came.
    wait_until([&] { return !fs::exists(path); });
    ::close(reader);
  }
  fs::path path;
};

TEST_CASE("while the disk does not answer, training does not wait, and gets a report") {
  Directory directory;
  State state(1);
  auto settings = settings_for(directory);
  settings.finish_timeout = milliseconds(50);
  DeadDisk disk(directory, 1);
  {
    Checkpointer checkpointer(settings, state.buffers);
    checkpointer.begin(snapshot_at(1));
    checkpointer.await_copy();
    state.fill(2);
    checkpointer.begin(snapshot_at(2));
    checkpointer.await_copy();
    CHECK(keys(checkpointer.take_notes()) == "checkpoint_late ");
    checkpointer.finish(snapshot_at(3));
    CHECK(keys(checkpointer.take_notes()) == "checkpoint_failed ");
  }
  CHECK(load_value(directory).first == 0);
}

TEST_CASE("a failed checkpoint is reported and the next due one is written") {
  Directory directory;
  State state(1);
  auto settings = settings_for(directory);
  settings.directory += "/later";
  directory.write("later", "a file where the directory should be");
  Checkpointer checkpointer(settings, state.buffers);
  checkpointer.finish(snapshot_at(1));
  const auto notes = checkpointer.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].key == "checkpoint_failed");
  CHECK(notes[0].text.find(settings.directory) != std::string::npos);
  fs::remove(directory / "later");
  checkpointer.finish(snapshot_at(2));
  CHECK(fs::exists(directory / "later/step-2.gen-1.json"));
  CHECK(keys(checkpointer.take_notes()) == "");
}

TEST_CASE("good ones are reported: at once the first, one after a failure and the last, others seldom") {
  Directory directory;
  State state(1);
  auto settings = settings_for(directory);
  settings.directory += "/later";
  Checkpointer checkpointer(settings, state.buffers);
  const auto write = [&](Step step) {
    checkpointer.begin(snapshot_at(step));
    checkpointer.await_copy();
    checkpointer.settle();
  };
  write(1);
  write(2);
  fs::rename(directory / "later", directory / "away");
  directory.write("later", "a file where the directory should be");
  write(3);
  fs::remove(directory / "later");
  write(4);
  write(5);
  checkpointer.finish(snapshot_at(5));
  std::string told;
  for (const auto& note : checkpointer.take_notes()) told += note.key + " " + note.text.substr(0, 6) + ";";
  CHECK(told == "checkpoint_written 1;checkpoint_failed step 3;checkpoint_written 4;checkpoint_written 5;");
}

TEST_CASE("a recovery's fence is written during training and holds against a worker that was cut off") {
  Directory directory;
  State state(51);
  Checkpointer cut_off(settings_for(directory), state.buffers);
  cut_off.enter({2, 1}, {{1, 1}}, 0, false);
  Checkpointer survivor(settings_for(directory), state.buffers);
  survivor.enter({4, 51}, {{1, 1}, {2, 1}}, 0, true);
  REQUIRE(wait_until([&] { return directory.names().contains("fence.gen-4.json"); }));
  cut_off.finish(snapshot_at(51, 2));
  CHECK(keys(cut_off.take_notes()) == "checkpoint_fenced_out ");
  CHECK(load_value(directory).first == 0);
  survivor.finish(snapshot_at(52, 4));
  CHECK(load_value(directory).first == 52);
}

TEST_CASE("a checkpoint that is due while a fence is being written is written too") {
  Directory directory;
  State state(5);
  Checkpointer checkpointer(settings_for(directory), state.buffers);
  for (Step step = 5; step < 25; ++step) {
    checkpointer.enter({step, step}, {}, 0, true);
    state.fill(static_cast<float>(step));
    checkpointer.begin(snapshot_at(step, step));
    checkpointer.await_copy();
    state.fill(-1);
    checkpointer.finish(snapshot_at(step, step));
    CHECK(load_value(directory) == std::pair<Step, float>{step, static_cast<float>(step)});
  }
  CHECK(keys(checkpointer.take_notes()) == "");
}

TEST_CASE("a run that begins anew counts its generations beyond those of the run before it") {
  Directory directory;
  const Store store(directory.path());
  REQUIRE(save(store, {7, 900}).ok());
  State state(10);
  Checkpointer checkpointer(settings_for(directory), state.buffers);
  checkpointer.enter({1, 1}, {}, 7, true);
  auto snapshot = snapshot_at(10);
  snapshot.progress.generation_base = 7;
  checkpointer.finish(snapshot);
  CHECK(load_value(directory) == std::pair<Step, float>{10, 10});
  CHECK(directory.names().contains("step-10.gen-8.json"));
  CHECK(directory.names().contains("step-900.gen-7.json"));
}

TEST_CASE("what was saved by two workers is cut for five without a sample lost or seen twice") {
  constexpr std::uint64_t kSamples = 1003;
  const std::vector<std::uint32_t> two(2, 16);
  const std::vector<std::uint32_t> five(5, 16);
  std::vector<int> seen(kSamples);
  state::SamplerState sampler{.seed = 4};
  const auto take = [&](const std::vector<std::uint32_t>& shares) {
    const auto cut = state::cut_step(sampler, kSamples, shares);
    for (const auto& piece : cut.pieces) {
      for (std::uint64_t i = 0; i < piece.count; ++i) ++seen[piece.first + i];
    }
    sampler = state::advance(sampler, kSamples, cut);
  };
  for (int step = 0; step < 10; ++step) take(two);
  Manifest manifest{.identity = {1, 10}, .world_size = 2, .data_checksum = std::string(32, '0')};
  manifest.progress.committed_step = 10;
  manifest.progress.sampler = sampler;
  const auto text = to_json(manifest);
  sampler = parse_manifest(std::as_bytes(std::span(text)))->progress.sampler;
  while (sampler.epoch == 0) take(five);
  CHECK(seen == std::vector<int>(kSamples, 1));
}

}  // namespace
}  // namespace elastictrain::checkpoint::test
