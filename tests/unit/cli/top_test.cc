// The screens are compared with tests/unit/cli/top/*.txt; ELASTICTRAIN_REWRITE_GOLDEN=1 rewrites them for review in the
// diff.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/output/table.h"
#include "cli/top/model.h"
#include "cli/top/screen.h"
#include "supervisor/protocol/json_text.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;
using namespace elastictrain::cli::top;
using elastictrain::test::contains;

namespace {

nlohmann::json worker_json(int rank, double compute_ms) {
  return {{"id", rank + 1},
          {"rank", rank},
          {"host", "node" + std::to_string(rank / 8)},
          {"phase", "member"},
          {"program_phase", ""},
          {"step", 1200},
          {"pid", 4000 + rank},
          {"step_ms", 100.0},
          {"compute_ms", compute_ms},
          {"data_wait_ms", 5.0},
          {"communicate_ms", 95.0 - compute_ms},
          {"quiet_ms", 3}};
}

nlohmann::json status_json(int workers) {
  nlohmann::json status = {{"name", "job"},
                           {"phase", "running"},
                           {"world_size", workers},
                           {"target_size", workers},
                           {"generation", 3},
                           {"uptime_s", 754.0},
                           {"epoch", 2},
                           {"epochs", 30},
                           {"epoch_fraction", .4},
                           {"time_left_s", 3720.0},
                           {"step", 1200},
                           {"loss", 0.1234},
                           {"recoveries", 1},
                           {"samples_per_s", 320.0 * workers},
                           {"cost", 12.5},
                           {"size_reason", "a user asked for it"}};
  status["scaling_efficiency"] = 0.93;
  status["workers"] = nlohmann::json::array();
  status["hosts"] = nlohmann::json::array();
  for (int rank = 0; rank < workers; ++rank)
    status["workers"].push_back(worker_json(rank, rank == 5 ? 80 : 40 + rank % 3));
  for (int host = 0; host < (workers + 7) / 8; ++host) {
    status["hosts"].push_back({{"host", "node" + std::to_string(host)},
                               {"phase", host == 1 ? "reconnecting" : "up"},
                               {"workers", 8},
                               {"slots", 8}});
  }
  return status;
}

Model model_of(int workers) {
  Model model;
  for (int i = 0; i < 300; ++i) {
    nlohmann::json status = status_json(i == 299 ? workers : 0);
    status["samples_per_s"] = 100.0 * workers * (1 + (i / 100));
    model.take(view_of(status));
  }
  for (int i = 0; i < 30; ++i)
    model.add_event("14:03:0" + std::to_string(i % 10) + ".123  commit  generation=" + std::to_string(i));
  return model;
}

std::string screen_text(const Model& model, const ScreenSize& size) {
  std::string text;
  for (const ScreenLine& line : draw(model, size)) text += plain(line) + "\n";
  return text;
}

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(ELASTICTRAIN_SOURCE_DIR) + "/tests/unit/cli/top/" + name + ".txt";
  if (std::getenv("ELASTICTRAIN_REWRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream wanted;
  wanted << file.rdbuf();
  CHECK_MESSAGE(text == wanted.str(), "the screen differs from " << path << ":\n" << text);
}

}  // namespace

TEST_CASE("screens of runs of all sizes on terminals of all sizes look as they are meant to") {
  check_golden("2_workers_80x24", screen_text(model_of(2), {24, 80, true}));
  check_golden("48_workers_80x24", screen_text(model_of(48), {24, 80, true}));
  check_golden("48_workers_200x60", screen_text(model_of(48), {60, 200, true}));
  check_golden("1000_workers_200x60", screen_text(model_of(1000), {60, 200, true}));
  check_golden("48_workers_80x24_ascii", screen_text(model_of(48), {24, 80, false}));
}

TEST_CASE("a screen of any size has as many lines, and none is too long") {
  const Model model = model_of(48);
  for (std::size_t rows = 0; rows < 70; ++rows) {
    for (const std::size_t columns : {1, 5, 20, 40, 79, 80, 133, 400}) {
      const auto lines = draw(model, {rows, columns, true});
      REQUIRE(lines.size() == rows);
      for (const ScreenLine& line : lines) {
        std::size_t width = 0;
        for (const Piece& piece : line) width += display_width(piece.text);
        REQUIRE(width <= columns);
      }
    }
  }
}

TEST_CASE("a list that does not fit says where it stands, scrolls, and has a legend without colours") {
  Model model = model_of(48);
  CHECK(contains(screen_text(model, {24, 80, true}), " 10 of 48\n"));
  CHECK(contains(screen_text(model, {24, 80, true}), "█ compute ▒ data ░ comm"));
  for (int i = 0; i < 12; ++i) model.press(Key::kDown);
  CHECK(contains(screen_text(model, {24, 80, true}), " 13 of 48\n"));
  for (int i = 0; i < 5; ++i) model.press(Key::kPageDown);
  CHECK(contains(screen_text(model, {24, 80, true}), " 48 of 48\n"));
  for (const char c : screen_text(model, {24, 60, false})) CHECK(static_cast<unsigned char>(c) < 0x80);
}

TEST_CASE("workers are sorted as asked, and the chosen one stays chosen") {
  Model model = model_of(8);
  CHECK(model.workers().front().rank == 5);
  model.press(Key::kDown);
  const std::int64_t chosen = model.workers()[model.selected()].id;
  model.press(Key::kSort);
  CHECK(model.order() == Order::kRank);
  CHECK(model.workers().front().rank == 0);
  CHECK(model.workers()[model.selected()].id == chosen);
  model.take(view_of(status_json(8)));
  CHECK(model.workers()[model.selected()].id == chosen);
  model.take(view_of(status_json(1)));
  CHECK(model.selected() == 0);
  model.press(Key::kPageDown);
  CHECK(model.selected() == 0);
}

TEST_CASE("nothing is changed without a yes") {
  Model model = model_of(4);
  CHECK(!model.press(Key::kGrow));
  CHECK(!model.press(Key::kGrow));
  CHECK(contains(screen_text(model, {24, 80, true}), "resize from 4 to 6 workers?"));
  CHECK(!model.press(Key::kNo));
  CHECK(!model.question());
  CHECK(!model.press(Key::kYes));
  model.press(Key::kShrink);
  CHECK(*model.press(Key::kYes) == nlohmann::json{{"command", "resize"}, {"workers", 3}});
  for (int i = 0; i < 10; ++i) model.press(Key::kShrink);
  CHECK(model.press(Key::kYes)->at("workers") == 1);
  model.press(Key::kReplace);
  CHECK(contains(model.question()->text, "on node0"));
  CHECK(*model.press(Key::kYes) == nlohmann::json{{"command", "replace"}, {"rank", *model.workers()[0].rank}});
  model.press(Key::kDrain);
  CHECK(!model.press(Key::kQuit));
  CHECK(!model.wants_to_quit());
  model.press(Key::kDrain);
  CHECK(*model.press(Key::kYes) == nlohmann::json{{"command", "drain"}, {"host", "node0"}});
  model.press(Key::kUndrain);
  CHECK(!model.question());
  CHECK(model.notice() == "no host is drained");
  model.press(Key::kQuit);
  CHECK(model.wants_to_quit());
}

TEST_CASE("drained hosts are offered one after the other") {
  nlohmann::json status = status_json(1);
  status["hosts"] = {
      {{"host", "b"}, {"phase", "drained"}}, {{"host", "a"}, {"phase", "draining"}}, {{"host", "c"}, {"phase", "up"}}};
  Model model;
  model.take(view_of(status));
  model.press(Key::kUndrain);
  CHECK(contains(screen_text(model, {24, 100, true}), "undrain host a, so that it may have workers again?"));
  model.press(Key::kUndrain);
  CHECK(*model.press(Key::kYes) == nlohmann::json{{"command", "undrain"}, {"host", "b"}});
  model.press(Key::kUndrain);
  model.press(Key::kUndrain);
  model.press(Key::kUndrain);
  CHECK(model.press(Key::kYes)->at("host") == "a");
}

TEST_CASE("a view of anything is a screen, and control characters of hosts do not reach the terminal") {
  for (const char* text :
       {"{}", "[]", "3", R"({"workers":[1,{"rank":"x","step_ms":1e300}],"hosts":7,"step":-1e300})"}) {
    Model model;
    model.take(view_of(parse_json(text)));
    model.press(Key::kReplace);
    model.press(Key::kDrain);
    CHECK(draw(model, {24, 80, true}).size() == 24);
  }
  nlohmann::json status = status_json(1);
  status["workers"][0]["host"] = "a\x1b[2Jb";
  Model model;
  model.take(view_of(status));
  CHECK(!contains(screen_text(model, {24, 80, true}), "\x1b"));
}

TEST_CASE("a run that does not answer is said, and its last state stays on the screen") {
  Model model = model_of(2);
  model.lost("the run has ended with status 0: training finished");
  const std::string text = screen_text(model, {24, 80, true});
  CHECK(contains(text, "the run has ended with status 0"));
  CHECK(contains(text, "step 1200"));
}
