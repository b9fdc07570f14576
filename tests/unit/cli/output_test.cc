#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "cli/output/figures.h"
#include "cli/output/line_sink.h"
#include "cli/output/log_file.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "heuristics/duration_text.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

using test::read_file;
using Folder = test::TemporaryDirectory;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    reading = ends[0];
    writing = ends[1];
  }
  ~Pipe() {
    close_reading();
    close_writing();
  }
  void close_reading() {
    if (reading >= 0) ::close(std::exchange(reading, -1));
  }
  void close_writing() {
    if (writing >= 0) ::close(std::exchange(writing, -1));
  }
  std::string read_to_end() {
    std::string text;
    std::array<char, 4096> block;
    for (ssize_t count = 0; (count = ::read(reading, block.data(), block.size())) > 0;) {
      text.append(block.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  int reading = -1;
  int writing = -1;
};

RunFigures training() {
  RunFigures figures;
  figures.view.phase = core::RunPhase::kRunning;
  figures.view.world_size = 3;
  figures.view.target_size = 3;
  figures.view.last_change = "grew from 2 to 3 because a host appeared";
  figures.epoch = 4;
  figures.epoch_fraction = 0.34;
  figures.step = 1234;
  figures.loss = 0.43211;
  figures.samples_per_s = 12345;
  return figures;
}

}  // namespace

TEST_CASE("a table aligns its columns and ends its lines without spaces") {
  Table table({{"RANK", Align::kRight}, {"HOST"}, {"STEP", Align::kRight}});
  table.add_row({"0", "node1", "9"});
  table.add_row({"10", "größe", "1000"});
  table.add_row({"x"});
  CHECK(table.render() ==
        "RANK  HOST   STEP\n"
        "   0  node1     9\n"
        "  10  größe  1000\n"
        "   x\n");
}

TEST_CASE("where there is no room the less important columns go first, then the last one is cut") {
  Table table({{"rank"}, {"slot", Align::kRight, 2}, {"pid", Align::kRight, 1}, {"host"}, {"why", Align::kLeft, 9}});
  table.add_row({"0", "12", "3456", "node1", "because somebody asked for it a while ago"});
  const auto width_of = [&](std::size_t columns) { return display_width(table.render({columns, true})) / 2; };
  CHECK(table.render().find("rank  slot   pid  host   why\n") == 0);
  CHECK(table.render({50, true}) ==
        "rank  slot   pid  host   why\n"
        "0       12  3456  node1  because somebody asked f…\n");
  CHECK(table.render({50, false}).find("asked f~\n") != std::string::npos);
  CHECK(table.render({40, true}).find("rank   pid  host   why\n") == 0);
  CHECK(table.render({34, true}).find("rank  host   why\n") == 0);
  CHECK(table.render({5, true}).find("rank  host") == 0);  // what stays
  for (std::size_t columns = 33; columns < 80; ++columns) CHECK(width_of(columns) <= columns);
  CHECK(Table({}).render({10, true}).empty());
}

TEST_CASE("text is cut to a width in columns, not bytes") {
  CHECK(fit("größe", 5) == "größe");
  CHECK(fit("größe", 4) == "grö…");
  CHECK(fit("abc", 0).empty());
}

TEST_CASE("figures are short") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(950) == "950");
  CHECK(format_count(12345) == "12.3k");
  CHECK(format_count(4.56e6) == "4.56M");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(100'000'000) == "95 MiB");
  CHECK(format_duration(0.0042) == "4.2 ms");
  for (double seconds = 1e-5; seconds < 1e7; seconds *= 1.07)
    CHECK(heuristics::duration_text(seconds) == format_duration(seconds));
  CHECK(heuristics::duration_text(-1) == format_duration(-1));
  CHECK(format_duration(12.34) == "12.3 s");
  CHECK(format_duration(125) == "2m 05s");
  CHECK(format_duration(3720) == "1h 02m");
}

TEST_CASE("figures that no run reaches are short too") {
  for (const double value : {1e300, -1e300, 1e15, std::numeric_limits<double>::max()}) {
    CHECK(format_count(value).size() < 12);
    CHECK(format_number(value, 3).size() < 12);
    CHECK(format_loss(value).size() < 12);
    CHECK(format_duration(value) == heuristics::duration_text(value));
    CHECK(format_duration(value) == "-");
  }
  CHECK(format_number(1e300, 1) == "1e+300");
  CHECK(format_number(999'999'999'999'999, 1) == "999999999999999.0");
}

TEST_CASE("a log file is rotated before it grows too large, and the oldest one is removed") {
  Folder folder;
  const std::string path = folder.file("w1.log");
  auto log = LogFile::open(path, {.max_bytes = 10, .keep = 2});
  REQUIRE(log.ok());
  for (const char* line : {"aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg"}) REQUIRE(log->append(line).ok());
  CHECK(read_file(path) == "gggg\n");
  CHECK(read_file(folder.file("w1.1.log")) == "eeee\nffff\n");
  CHECK(read_file(folder.file("w1.2.log")) == "cccc\ndddd\n");
  CHECK(!std::filesystem::exists(folder.file("w1.3.log")));
}

TEST_CASE("a log file is continued by the next run, and a long line still fits") {
  Folder folder;
  const std::string path = folder.file("w1.log");
  { REQUIRE(LogFile::open(path, {})->append("one").ok()); }
  auto log = LogFile::open(path, {.max_bytes = 3, .keep = 0});
  REQUIRE(log.ok());
  CHECK(read_file(path) == "one\n");
  REQUIRE(log->append("a line longer than the file may be").ok());
  CHECK(read_file(path) == "a line longer than the file may be\n");
  CHECK(LogFile::open(folder.file("new/folder/w2.log"), {}).ok());
  CHECK(!LogFile::open(path + "/w3.log", {}).ok());
}

TEST_CASE("a dated log file begins each line with its time and its level") {
  Folder folder;
  const std::string path = folder.file("run.log");
  auto log = LogFile::open(path, {.form = LogFile::Form::kDated});
  REQUIRE(log.ok());
  REQUIRE(log->append("host {a} is suspected", LogLevel::kWarning).ok());
  REQUIRE(log->append("training ends").ok());
  const std::string text = read_file(path);
  CHECK(text.find(" warning host {a} is suspected\n") == 23);  // behind 2026-01-31T12:00:00.000
  CHECK(text.find(" info training ends\n") != std::string::npos);
}

TEST_CASE("a full disk is an error of the line that did not fit") {
  auto log = LogFile::open("/dev/full", {});
  REQUIRE(log.ok());
  const Status written = log->append("one");
  REQUIRE(!written.ok());
  CHECK(written.error().code == ErrorCode::kIo);
  CHECK(written.error().message.find("/dev/full") != std::string::npos);
}

TEST_CASE("children do not inherit a log file") {
  Folder folder;
  const std::string path = folder.file("w1.log");
  auto log = LogFile::open(path, {});
  REQUIRE(log.ok());
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != path) continue;
    found = true;
    CHECK((fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found);
}

TEST_CASE("a sink writes whole lines in order") {
  Pipe pipe;
  LineSink sink({.descriptor = pipe.writing});
  sink.write("one");
  sink.message("two");
  CHECK(sink.close() == 0);
  pipe.close_writing();
  CHECK(pipe.read_to_end() == "one\ntwo\n");
}

TEST_CASE("a slow reader does not block the writer, and is told how many lines are missing") {
  Pipe pipe;
  REQUIRE(fcntl(pipe.writing, F_SETPIPE_SZ, 4096) > 0);
  LineSink sink({.descriptor = pipe.writing, .max_queued_bytes = 64 << 10});
  const std::string line(999, 'x');
  for (int i = 0; i < 2000; ++i) sink.write(line);  // 2 MB into 68 KB: returns at once or this test never ends
  std::string text;
  std::thread reader([&] { text = pipe.read_to_end(); });
  CHECK(sink.close() == 0);
  pipe.close_writing();
  reader.join();
  // However the writer's thread and this one interleave, each gap is reported where it is.
  std::size_t arrived = 0;
  std::size_t dropped = 0;
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    if (one == line)
      ++arrived;
    else if (one.ends_with("lines were dropped here: this output is read too slowly"))
      dropped += std::stoul(one.substr(14));
    else
      FAIL("neither a line nor a gap: ", one);
  }
  CHECK(arrived < 2000);
  CHECK(arrived + dropped == 2000);
}

TEST_CASE("a closed pipe does not end the run") {
  Pipe pipe;
  pipe.close_reading();
  std::signal(SIGPIPE, SIG_IGN);  // as the program does
  LineSink sink({.descriptor = pipe.writing});
  sink.write("into the void");
  CHECK(sink.close() == 0);
}

TEST_CASE("on a terminal the status line stays below the lines and never mixes with them") {
  Pipe pipe;
  LineSink sink({.descriptor = pipe.writing, .is_terminal = true});
  sink.set_status("step 1");
  sink.write("a line");
  sink.set_status("");
  sink.close();
  pipe.close_writing();
  const std::string text = pipe.read_to_end();
  const bool drawn_first = text == "step 1\r\x1b[Ka line\n" || text == "step 1\r\x1b[Ka line\nstep 1\r\x1b[K";
  CHECK((drawn_first || text == "a line\n" || text == "a line\nstep 1\r\x1b[K"));
}

TEST_CASE("a status of several lines is erased as a whole") {
  Pipe pipe;
  LineSink sink({.descriptor = pipe.writing, .is_terminal = true});
  sink.set_status("bar 1\nstep 1");
  sink.close();
  pipe.close_writing();
  CHECK(pipe.read_to_end() == "bar 1\nstep 1");

  Pipe other;
  LineSink drawn({.descriptor = other.writing, .is_terminal = true});
  drawn.set_status("bar 1\nbar 2\nstep 1");
  char first[18];
  REQUIRE(::read(other.reading, first, sizeof first) == sizeof first);
  drawn.set_status("");
  drawn.close();
  other.close_writing();
  CHECK(other.read_to_end() == "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K");
}

TEST_CASE("a progress bar is a line now and then in a file, and at the bottom of a terminal") {
  ProgressBars bars;
  const ProgressBars::Time start{};
  const auto after = [&](int seconds) { return start + std::chrono::seconds(seconds); };
  OutputLine line;
  line.worker = WorkerId{2};
  CHECK(bars.due(line, after(0)));
  CHECK_FALSE(bars.due(line, after(9)));
  CHECK(bars.due(line, after(10)));
  line.is_stderr = true;
  CHECK(bars.due(line, after(11)));
  CHECK(bars.render(80, after(11)).empty());
  bars.show(line, "[h:1]  40%|####      |", after(11));
  CHECK(bars.render(80, after(12)) == "[h:1]  40%|####      |\n");
  CHECK(display_width(bars.render(10, after(12))) <= 10 + 1);
  CHECK(bars.render(80, after(80)).empty());
  for (std::uint32_t number = 1; number < 9; ++number) {
    line.worker = WorkerId{number};
    bars.show(line, std::to_string(number), after(80));
  }
  CHECK(bars.render(80, after(80)) == "1\n2\n3\n4\n");
  line.worker = WorkerId{2};
  bars.end(line);
  CHECK(bars.render(80, after(80)) == "1\n3\n4\n5\n");
  CHECK(bars.due(line, after(80)));
}

TEST_CASE("without a terminal there is no status line") {
  Pipe pipe;
  LineSink sink({.descriptor = pipe.writing});
  sink.set_status("step 1");
  sink.close();
  pipe.close_writing();
  CHECK(pipe.read_to_end().empty());
}

TEST_CASE("progress shows epoch, step, loss, speed, size and the last change") {
  CHECK(
      render_progress(training(), 200) ==
      "epoch 5 34% | step 1234 | loss 0.4321 | 12.3k samples/s | 3 workers | grew from 2 to 3 because a host appeared");
  CHECK(render_progress_plain(training()) == "progress: " + render_progress(training(), 200));
  RunFigures figures = training();
  figures.view.epochs = 9;
  figures.time_left_s = 754;
  CHECK(render_progress(figures, 75) == "epoch 5 of 9 34% | step 1234 | loss 0.4321 | 12m 34s left | 3 workers");
}

TEST_CASE("progress of a program that reports no loss shows none") {
  RunFigures figures = training();
  figures.loss = 0;
  CHECK(render_progress(figures, 40) == "epoch 5 34% | step 1234 | 3 workers");
}

TEST_CASE("progress never exceeds the width and keeps what matters longest") {
  for (std::size_t width = 0; width < 130; ++width) CHECK(display_width(render_progress(training(), width)) <= width);
  CHECK(render_progress(training(), 62) == "epoch 5 34% | step 1234 | loss 0.4321 | 3 workers");
  CHECK(render_progress(training(), 95) ==
        "epoch 5 34% | step 1234 | loss 0.4321 | 12.3k samples/s | 3 workers | grew from 2 to 3 because…");
  CHECK(render_progress(training(), 24) == "step 1234 | 3 workers");
}

TEST_CASE("progress shows the target size before the first step") {
  RunFigures figures;
  figures.view.phase = core::RunPhase::kStarting;
  figures.view.target_size = 2;
  CHECK(render_progress(figures, 80) == "starting | 0 workers (target 2)");
}
