// A place of checkpoints: what is loaded from it after any damage to the files.
#include "train/checkpoint/store.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "directory.h"
#include "train/checkpoint/checksum.h"

namespace elastictrain::checkpoint::test {
namespace {

using Names = std::set<std::string>;

struct Outcome {
  Result<Loaded> loaded = Error{};
  std::vector<std::string> skipped;
  State state{-1};
};

Outcome load(const Store& store, const Lineage& more = {}) {
  Outcome outcome;
  outcome.loaded = store.load_newest(outcome.state.buffers, 0, more, outcome.skipped);
  return outcome;
}

// The step that is loaded; 0: none.
Step loaded_step(const Store& store, const Lineage& more = {}) {
  const auto outcome = load(store, more);
  if (!outcome.loaded) return 0;
  const auto step = outcome.loaded->manifest.identity.step;
  CHECK(outcome.state.is(static_cast<float>(step)));
  return step;
}

TEST_CASE("a checkpoint brings back every byte and the run's numbers") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {2, 40}, {{2, 31}}).ok());
  CHECK(directory.names() == Names{"step-40.gen-2.safetensors", "step-40.gen-2.json"});
  const auto outcome = load(store);
  REQUIRE(outcome.loaded.ok());
  CHECK(outcome.loaded->manifest.progress.committed_step == 40);
  CHECK(outcome.loaded->lineage == Lineage{{2, 31}});
  CHECK(outcome.loaded->newest_generation == 2);
  CHECK(outcome.state.is(40));
  CHECK(outcome.skipped.empty());
}

TEST_CASE("the data file is a safetensors file and its checksum is over all of it") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 3}).ok());
  const auto text = directory.read("step-3.gen-1.safetensors");
  const auto bytes = std::as_bytes(std::span(text));
  const auto header = parse_tensor_header(bytes);
  REQUIRE(header.ok());
  CHECK(header->data_begin + header->data_bytes == text.size());
  CHECK(header->tensors[0].name == "weights");
  float value = 0;
  std::memcpy(&value, text.data() + header->data_begin, sizeof value);
  CHECK(value == 3.0F);
  CHECK(load(store).loaded->manifest.data_checksum == checksum_of(bytes));
}

TEST_CASE("a directory that is not there, or empty, is nothing to load") {
  Directory directory;
  CHECK(load(store_at(directory.path())).loaded.error().code == ErrorCode::kUnavailable);
  CHECK(load(store_at(directory.path() + "/none")).loaded.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("a damaged checkpoint is skipped with a message and the next older one is taken") {
  const std::string data = "step-50.gen-1.safetensors";
  const std::string manifest = "step-50.gen-1.json";
  const std::vector<std::pair<std::string, std::function<void(const Directory&)>>> damages{
      {"cut", [&](const Directory& d) { fs::resize_file(d / data, fs::file_size(d / data) - 1); }},
      {"emptied", [&](const Directory& d) { fs::resize_file(d / data, 0); }},
      {"longer", [&](const Directory& d) { d.write(data, d.read(data) + "x"); }},
      {"a flipped bit",
       [&](const Directory& d) {
         auto text = d.read(data);
         text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
         d.write(data, text);
       }},
      {"a flipped bit in the header",
       [&](const Directory& d) {
         auto text = d.read(data);
         text[12] = static_cast<char>(text[12] ^ 1);
         d.write(data, text);
       }},
      {"other bytes of the same length",
       [&](const Directory& d) { d.write(data, std::string(fs::file_size(d / data), 'z')); }},
      {"gone", [&](const Directory& d) { fs::remove(d / data); }},
      {"a directory in its place",
       [&](const Directory& d) {
         fs::remove(d / data);
         fs::create_directory(d / data);
       }},
      {"manifest gone", [&](const Directory& d) { fs::remove(d / manifest); }},
      {"manifest emptied", [&](const Directory& d) { fs::resize_file(d / manifest, 0); }},
      {"manifest cut", [&](const Directory& d) { fs::resize_file(d / manifest, 100); }},
      {"manifest of another", [&](const Directory& d) { d.write(manifest, d.read("step-40.gen-1.json")); }},
      {"manifest tampered with",
       [&](const Directory& d) {
         auto text = d.read(manifest);
         text.replace(text.find("\"cursor\": 0"), 11, "\"cursor\": 9");
         d.write(manifest, text);
       }},
      {"a newer format", [&](const Directory& d) {
         auto text = d.read(manifest);
         text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");
         d.write(manifest, text);
       }}};
  for (const auto& [name, damage] : damages) {
    CAPTURE(name);
    Directory directory;
    const Store store = store_at(directory.path());
    REQUIRE(save(store, {1, 40}).ok());
    REQUIRE(save(store, {1, 50}).ok());
    CHECK(loaded_step(store) == 50);
    damage(directory);
    const Store later = store_at(directory.path());
    CHECK(loaded_step(later) == 40);
    const auto outcome = load(later);
    REQUIRE(outcome.skipped.size() == 1);
    CHECK(outcome.skipped[0].find("step-50.gen-1") != std::string::npos);
  }
}

TEST_CASE("where all are damaged nothing starts from zero") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 40}).ok());
  fs::resize_file(directory / "step-40.gen-1.safetensors", 10);
  const auto outcome = load(store);
  REQUIRE_FALSE(outcome.loaded.ok());
  CHECK(outcome.loaded.error().code == ErrorCode::kInvalid);
  CHECK(outcome.loaded.error().message.find(directory.path()) != std::string::npos);
}

TEST_CASE("a checkpoint of an older format, without a manifest, is named and not taken") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 40}).ok());
  fs::remove(directory / "step-40.gen-1.json");
  const auto outcome = load(store);
  // With a client it may be what an interrupted writer left. The run's own journal knows whether there was a
  // checkpoint.
  CHECK(outcome.loaded.error().code == (client_program() == nullptr ? ErrorCode::kInvalid : ErrorCode::kUnavailable));
  CHECK(outcome.skipped.at(0).find("no manifest") != std::string::npos);
}

TEST_CASE("a writer killed between the two names leaves no checkpoint, and no obstacle to a start") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 40}).ok());
  fs::rename(directory / "step-40.gen-1.json", directory / "step-40.gen-1.json.tmp.gen-1.here.1");
  CHECK(load(store).loaded.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("state of another program is refused before a byte of it is taken") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 40}).ok());
  float other = 7;
  state::StateBuffers buffers;
  buffers.add("weights", &other, sizeof other);
  std::vector<std::string> skipped;
  CHECK_FALSE(store.load_newest(buffers, 0, {}, skipped).ok());
  CHECK(other == 7);
  CHECK(skipped.at(0).find("other state") != std::string::npos);
}

TEST_CASE("a program may make its state of one of another layout, whose checksum is right") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 40}).ok());
  float own = 7;
  state::StateBuffers buffers;
  buffers.add("weights", &own, sizeof own);
  std::size_t bytes = 0;
  Status answer;
  const Adapter adapter{.is_other = [](const Manifest&) { return false; },
                        .take =
                            [&](Manifest& manifest, std::string_view header, std::span<const std::byte> data) {
                              CHECK(header.find("weights") != std::string_view::npos);
                              manifest.progress.sampler.epoch = 9;
                              bytes = data.size();
                              return answer;
                            }};
  std::vector<std::string> skipped;
  const auto loaded = store.load_newest(buffers, 17, {}, skipped, &adapter);
  REQUIRE(loaded.ok());
  CHECK(loaded->manifest.progress.sampler.epoch == 9);
  CHECK(bytes == State().buffers.total_bytes());

  answer = Error{ErrorCode::kInvalid, "another model"};
  CHECK_FALSE(store.load_newest(buffers, 17, {}, skipped, &adapter).ok());
  CHECK(skipped.at(0).find("another model") != std::string::npos);

  auto text = directory.read(data_name({1, 40}));
  text.back() ^= 1;
  directory.write(data_name({1, 40}), text);
  bytes = 0;
  CHECK_FALSE(store.load_newest(buffers, 17, {}, skipped, &adapter).ok());
  CHECK(bytes == 0);
}

TEST_CASE("a checkpoint that counts over another data set is not taken") {
  Directory directory;
  const Store store = store_at(directory.path());
  State state;
  Manifest manifest{.identity = {1, 5}, .sample_count = 100, .layout_hash = state.buffers.layout_hash()};
  manifest.progress.committed_step = 5;
  const std::vector<std::byte> data(state.buffers.total_bytes());
  REQUIRE(store.write(manifest, *encode_tensor_header(tensors_of(state.buffers), {}), data, writer_of(1)).ok());
  std::vector<std::string> skipped;
  CHECK(store.load_newest(state.buffers, 100, {}, skipped).ok());
  CHECK_FALSE(store.load_newest(state.buffers, 101, {}, skipped).ok());
}

TEST_CASE("buffers without bytes are no obstacle") {
  Directory directory;
  const Store store = store_at(directory.path());
  int value = 3;
  state::StateBuffers buffers;
  buffers.add("z", nullptr, 0);
  buffers.add("m", &value, sizeof value);
  buffers.add("a", nullptr, 0);
  Manifest manifest{.identity = {1, 5}, .layout_hash = buffers.layout_hash()};
  manifest.progress.committed_step = 5;
  const auto data = std::as_bytes(std::span(&value, 1));
  REQUIRE(store.write(manifest, *encode_tensor_header(tensors_of(buffers), {}), data, writer_of(1)).ok());
  value = 0;
  std::vector<std::string> skipped;
  CHECK(store.load_newest(buffers, 0, {}, skipped).ok());
  CHECK(value == 3);
}

TEST_CASE("a worker that was cut off cannot write what a newer generation would read") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {2, 50}).ok());
  // Written before the fence: skipped when loading. Written after it: refused.
  REQUIRE(save(store, {2, 51}).ok());
  REQUIRE(store.write_fence({{3, 51}, {}, "test"}, writer_of(3)).ok());
  CHECK(loaded_step(store) == 50);
  CHECK(save(store, {2, 52}).error().code == ErrorCode::kRefused);
  REQUIRE(save(store, {3, 51}).ok());
  CHECK(loaded_step(store) == 51);
  CHECK(load(store).loaded->manifest.identity.generation == 3);
}

TEST_CASE("the supervisor's word fences out as well, also where no fence was written") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {2, 50}).ok());
  REQUIRE(save(store, {2, 51}).ok());
  CHECK(loaded_step(store, {{3, 51}}) == 50);
}

TEST_CASE("a new fence replaces older ones and includes their content") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(store.write_fence({{3, 51}, {}, "test"}, writer_of(3)).ok());
  REQUIRE(store.write_fence({{5, 70}, {}, "test"}, writer_of(5)).ok());
  CHECK(directory.names() == Names{"fence.gen-5.json"});
  CHECK(store.list()->lineage == Lineage{{3, 51}, {5, 70}});
}

TEST_CASE("a run that starts again continues, and counts, from the checkpoint that it loaded") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {4, 90}).ok());
  fs::resize_file(directory / "step-90.gen-4.safetensors", 10);
  REQUIRE(save(store, {3, 80}).ok());
  CHECK(loaded_step(store) == 80);
  // All workers are new: generation 5 continues from step 80.
  REQUIRE(save(store, {5, 85}, {{5, 81}}).ok());
  CHECK(loaded_step(store) == 85);
}

TEST_CASE("as many as wanted are kept") {
  Directory directory;
  const Store store = store_at(directory.path());
  for (const Step step : {8, 9, 10, 11, 100}) {
    REQUIRE(save(store, {1, step}).ok());
    store.clean_up(3, 0, writer_of(1));
  }
  CHECK(directory.names() == Names{"step-10.gen-1.json", "step-10.gen-1.safetensors", "step-11.gen-1.json",
                                   "step-11.gen-1.safetensors", "step-100.gen-1.json", "step-100.gen-1.safetensors"});
}

TEST_CASE("damaged ones do not count among those that are kept") {
  Directory directory;
  const Store store = store_at(directory.path());
  for (const Step step : {10, 20, 30}) REQUIRE(save(store, {1, step}).ok());
  fs::resize_file(directory / "step-30.gen-1.safetensors", 10);
  store.clean_up(2, 0, writer_of(1));
  CHECK(loaded_step(store) == 20);
  CHECK(directory.names().contains("step-10.gen-1.json"));
}

TEST_CASE("what dead and fenced-out writers left is removed, what others are writing stays") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {3, 30}).ok());
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string name = "step-40.gen-3.safetensors";
  const auto of_dead = temporary_name(name, {3, "here", dead});
  const auto of_living = temporary_name(name, {3, "here", ::getppid()});
  const auto of_elsewhere = temporary_name(name, {3, "there", dead});
  const auto of_older = temporary_name("step-40.gen-2.safetensors", {2, "there", dead});
  for (const auto& file : {of_dead, of_living, of_elsewhere, of_older}) directory.write(file, "half of it");
  directory.write("somebody's notes.tmp", "");
  store.clean_up(3, 0, writer_of(3));
  CHECK(directory.names() ==
        Names{"step-30.gen-3.json", "step-30.gen-3.safetensors", of_living, of_elsewhere, "somebody's notes.tmp"});
}

TEST_CASE("a disk that is full costs this checkpoint and nothing else") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 10}).ok());
  const auto before = directory.names();
  // The kernel refuses to let a file grow beyond the limit, as it refuses on a full disk.
  const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{2000, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto status = save(store, {1, 20});
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old_action);
  CHECK_FALSE(status.ok());
  CHECK(directory.names() == before);
  CHECK(loaded_step(store) == 10);
  CHECK(save(store, {1, 20}).ok());
  CHECK(loaded_step(store) == 20);
}

TEST_CASE("a process killed at any moment of writing leaves the older checkpoint, or both") {
  Directory directory;
  const Store store = store_at(directory.path());
  REQUIRE(save(store, {1, 1}).ok());
  for (int round = 0; round < 30; ++round) {
    const Step before = loaded_step(store);
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (Step step = before + 1;; ++step) {
        if (!save(store, {1, step})) ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(500 + round * 397));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    CHECK(loaded_step(store) >= before);
    store.clean_up(2, 0, writer_of(1));
    // A client that outlives its writer may still be at work.
    if (client_program() == nullptr) CHECK(load(store).skipped.empty());
  }
}

TEST_CASE("two concurrent writers of the same checkpoint do not disturb each other") {
  Directory directory;
  const Store store = store_at(directory.path());
  pid_t writers[2];
  for (auto& writer : writers) {
    writer = ::fork();
    if (writer != 0) continue;
    for (Step step = 1; step <= 20; ++step) {
      if (!save(store, {1, step})) ::_exit(1);
    }
    ::_exit(0);
  }
  for (const auto writer : writers) {
    int status = 0;
    ::waitpid(writer, &status, 0);
    CHECK(status == 0);
  }
  CHECK(loaded_step(store) == 20);
  CHECK(load(store).skipped.empty());
}

TEST_CASE("data that an interrupted writer left without a manifest is removed by the next one") {
  if (client_program() == nullptr) return;  // a directory has temporary names for it
  Directory directory;
  const Store store = store_at(directory.path());
  directory.write("step-10.gen-1.safetensors", "half of it");
  directory.write("step-30.gen-2.safetensors", "a later generation writes it");
  REQUIRE(save(store, {1, 20}).ok());
  store.clean_up(3, 0, writer_of(1));
  CHECK(directory.names() == Names{"step-20.gen-1.json", "step-20.gen-1.safetensors", "step-30.gen-2.safetensors"});
  CHECK(loaded_step(store) == 20);
}

}  // namespace
}  // namespace elastictrain::checkpoint::test
