#include "cli/top/screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli::top {
namespace {

constexpr std::size_t kWideColumns = 100;  // from here on a worker's times are shown as numbers, too
constexpr std::size_t kTallRows = 40;      // from here on hosts have a table
constexpr std::size_t kSmallestChart = 3;
constexpr std::size_t kHostColumns = 14;
constexpr double kSlowFactor = 1.25;  // of the usual compute time, from which on a worker is slow

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string left(const std::string& text, std::size_t width) {
  const std::string cut = fit(text, width);
  return cut + std::string(width - std::min(width, display_width(cut)), ' ');
}

std::string right(const std::string& text, std::size_t width) {
  const std::string cut = fit(text, width);
  return std::string(width - std::min(width, display_width(cut)), ' ') + cut;
}

std::string ms_text(double value) {
  return value > 0 ? format_number(value, value < 10 ? 2 : value < 1000 ? 1 : 0) : "-";
}

// Cuts a line at the right edge.
ScreenLine cut(ScreenLine line, std::size_t columns) {
  std::size_t used = 0;
  for (Piece& piece : line) {
    piece.text = fit(piece.text, columns - used);
    used += display_width(piece.text);
  }
  return line;
}

struct Drawing {
  const Model& model;
  const View& view;
  ScreenSize size;
  std::vector<ScreenLine> lines = {};

  std::size_t room() const { return size.rows > lines.size() ? size.rows - lines.size() : 0; }
  void add(ScreenLine line) { lines.push_back(cut(std::move(line), size.columns)); }
  void add(const std::string& text, Look look = Look::kPlain) { add(ScreenLine{{text, look}}); }
};

// --- The head

std::string size_text(const View& view) {
  std::string text = protocol::counted(view.world_size, "worker");
  if (view.target_size != view.world_size) text += " (target " + std::to_string(view.target_size) + ")";
  return text;
}

// What the size brings and costs, and why the run has it.
std::string costs_text(const View& view) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "  ") + part; };
  if (view.efficiency) add("scaling efficiency " + format_number(*view.efficiency, 2));
  if (view.recoveries > 0) add("recoveries " + std::to_string(view.recoveries));
  if (view.cost > 0) add("cost " + format_number(view.cost, 2));
  if (!view.size_reason.empty()) add("size: " + view.size_reason);
  return text;
}

void add_head(Drawing& drawing) {
  const View& view = drawing.view;
  drawing.add(left(" " + view.name + "  " + view.phase + "  " + size_text(view) + "  generation " +
                       std::to_string(view.generation) + "  up " + format_duration(view.uptime_s),
                   drawing.size.columns),
              Look::kReverse);
  if (view.step > 0) {
    std::string text = "epoch " + format_number(view.epoch + 1, 0);
    if (view.epochs > 0) text += " of " + std::to_string(view.epochs);
    text += " " + format_number(100 * view.epoch_fraction, 0) + "%  step " + std::to_string(view.step) +
            (is_reported(view.loss) ? "  loss " + format_loss(view.loss) : "") + "  " +
            format_count(view.samples_per_s) + " samples/s";
    if (view.time_left_s) text += "  " + format_duration(*view.time_left_s) + " left";
    drawing.add(text, Look::kBold);
  }
  if (const std::string text = costs_text(view); !text.empty()) drawing.add(text, Look::kWeak);
}

// --- The curve of throughput: each column the mean of its part of the past

std::vector<double> columns_of(const std::deque<double>& past, std::size_t columns) {
  std::vector<double> means;
  const std::size_t begin = past.size() > columns ? past.size() - columns : 0;
  for (std::size_t i = begin; i < past.size(); ++i) means.push_back(past[i]);
  return means;
}

// One character of a column whose height is `part` of this row: empty at 0, full at 1.
std::string bar_piece(double part, bool unicode) {
  static const std::array<const char*, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double clamped = std::clamp(part, 0.0, 1.0);
  if (!unicode) return clamped >= 0.75 ? "#" : clamped >= 0.25 ? "." : " ";
  return kEighths[static_cast<std::size_t>(std::lround(clamped * 8))];
}

void add_chart(Drawing& drawing, std::size_t rows) {
  constexpr std::size_t kLabel = 8;
  if (rows < kSmallestChart || drawing.size.columns < kLabel + 10) return;
  const std::vector<double> values = columns_of(drawing.model.past(), drawing.size.columns - kLabel - 1);
  const double top = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string label = row == 0 ? format_count(top) : row + 1 == rows ? "0" : "";
    std::string bars;
    const auto above = static_cast<double>(rows - 1 - row);
    for (const double value : values) {
      const double height = top > 0 ? value / top * static_cast<double>(rows) : 0;
      bars += bar_piece(height - above, drawing.size.unicode);
    }
    drawing.add({{right(label, kLabel) + " ", Look::kWeak}, {bars, Look::kCurve}});
  }
}

// --- Workers

struct Columns {
  bool numbers = false;
  std::size_t bar = 10;
};

Columns columns_for(std::size_t width) {
  Columns columns;
  columns.numbers = width >= kWideColumns;
  const std::size_t used = 5 + 1 + 7 + 1 + kHostColumns + 1 + 8 + 1 + (columns.numbers ? 27 : 0) + 1 + 10;
  columns.bar = width > used + 6 ? std::min<std::size_t>(width - used, 80) : 6;
  return columns;
}

const char* name_of(Order order) {
  return order == Order::kSlowest ? "slowest first" : order == Order::kRank ? "by rank" : "by host";
}

struct Signs {
  const char *compute, *data, *communicate;
};
Signs signs_of(const Drawing& drawing) {
  return drawing.size.unicode ? Signs{"█", "▒", "░"} : Signs{"#", "=", "-"};
}

// With what the bars are made of, which needs no colours, and the last one that is shown of all.
ScreenLine worker_titles(const Drawing& drawing, const Columns& columns, std::size_t last) {
  std::string text =
      right("rank", 5) + " " + left("worker", 7) + " " + left("host", kHostColumns) + " " + right("step ms", 8) + " ";
  if (columns.numbers) text += right("compute", 8) + " " + right("data", 8) + " " + right("comm", 8) + " ";
  const Signs signs = signs_of(drawing);
  const std::string legend =
      std::string(signs.compute) + " compute " + signs.data + " data " + signs.communicate + " comm";
  return {{text, Look::kBold},
          {left(legend, columns.bar)},
          {" " + std::to_string(last) + " of " + std::to_string(drawing.model.workers().size())}};
}

void add_bar(ScreenLine& line, const Worker& worker, double longest_ms, const Drawing& drawing, std::size_t width) {
  if (longest_ms <= 0 || worker.step_ms <= 0) return line.push_back({std::string(width, ' ')});
  const auto columns = [&](double ms) {
    return static_cast<std::size_t>(std::lround(static_cast<double>(width) * std::clamp(ms / longest_ms, 0.0, 1.0)));
  };
  const std::size_t compute = columns(worker.compute_ms);
  const std::size_t data = columns(worker.compute_ms + worker.data_ms) - compute;
  const std::size_t communicate = columns(worker.compute_ms + worker.data_ms + worker.communicate_ms) - compute - data;
  const Signs signs = signs_of(drawing);
  line.push_back({repeated(signs.compute, compute), Look::kCompute});
  line.push_back({repeated(signs.data, data), Look::kData});
  line.push_back({repeated(signs.communicate, communicate), Look::kCommunicate});
  line.push_back({std::string(width - compute - data - communicate, ' ')});
}

std::string remark_on(const Worker& worker, double usual_ms) {
  if (!worker.doing.empty()) return worker.doing;
  if (worker.phase != "member") return worker.phase;
  if (usual_ms <= 0 || worker.compute_ms < kSlowFactor * usual_ms) return "";
  return format_number(worker.compute_ms / usual_ms, 1) + "x slow";
}

ScreenLine worker_line(const Drawing& drawing, const Columns& columns, const Worker& worker, double longest_ms,
                       bool is_selected) {
  std::string text = right(worker.rank ? std::to_string(*worker.rank) : "-", 5) + " " +
                     left("w" + std::to_string(worker.id), 7) + " " + left(worker.host, kHostColumns) + " " +
                     right(ms_text(worker.step_ms), 8) + " ";
  if (columns.numbers) {
    text += right(ms_text(worker.compute_ms), 8) + " " + right(ms_text(worker.data_ms), 8) + " " +
            right(ms_text(worker.communicate_ms), 8) + " ";
  }
  ScreenLine line{{text, is_selected ? Look::kReverse : Look::kPlain}};
  add_bar(line, worker, longest_ms, drawing, columns.bar);
  line.push_back({" " + remark_on(worker, drawing.model.usual_compute_ms()), Look::kSlow});
  return line;
}

void add_workers(Drawing& drawing, std::size_t rows) {
  if (rows < 2) return;
  const auto& workers = drawing.model.workers();
  const Columns columns = columns_for(drawing.size.columns);
  const std::size_t shown = std::min(rows - 1, workers.size());
  const std::size_t selected = drawing.model.selected();
  const std::size_t first = selected >= shown ? selected - shown + 1 : 0;
  drawing.add(worker_titles(drawing, columns, first + shown));
  double longest_ms = 0;
  for (const Worker& worker : workers) longest_ms = std::max(longest_ms, worker.step_ms);
  for (std::size_t i = first; i < first + shown; ++i) {
    drawing.add(worker_line(drawing, columns, workers[i], longest_ms, i == selected));
  }
}

// --- Hosts, events, keys

std::string hosts_line(const View& view) {
  std::map<std::string, std::size_t> phases;
  for (const Host& host : view.hosts) ++phases[host.phase];
  std::string text = "hosts:";
  for (const auto& [phase, count] : phases) text += " " + std::to_string(count) + " " + phase;
  return text;
}

void add_hosts(Drawing& drawing, std::size_t rows) {
  const auto& hosts = drawing.view.hosts;
  if (rows == 0 || hosts.empty()) return;
  drawing.add(hosts_line(drawing.view), Look::kBold);
  std::vector<Host> sorted = hosts;  // those that are not up first
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Host& a, const Host& b) { return a.phase != "up" && b.phase == "up"; });
  for (std::size_t i = 0; i < sorted.size() && i + 1 < rows; ++i) {
    drawing.add(left(sorted[i].name, 30) + " " + left(sorted[i].phase, 12) + " " + std::to_string(sorted[i].workers) +
                " of " + protocol::counted(sorted[i].slots, "slot"));
  }
}

void add_events(Drawing& drawing, std::size_t rows) {
  if (rows < 2) return;
  drawing.add("events", Look::kBold);
  const auto& events = drawing.model.events();
  const std::size_t first = events.size() > rows - 1 ? events.size() - (rows - 1) : 0;
  for (std::size_t i = first; i < events.size(); ++i) drawing.add(events[i]);
}

ScreenLine last_line(const Drawing& drawing) {
  const Model& model = drawing.model;
  if (model.question()) {
    std::string keys = "  y yes, n no";
    if (model.question()->size > 0) keys += ", + - another size";
    if (!model.question()->host.empty()) keys += ", u another host";
    return {{left(" " + model.question()->text + keys, drawing.size.columns), Look::kAsk}};
  }
  if (!model.notice().empty()) return {{left(" " + model.notice(), drawing.size.columns), Look::kAsk}};
  const std::string order = name_of(model.order());
  return {
      {left(" q quit  s " + order + "  + - resize  r replace  d drain  arrows choose  h help", drawing.size.columns),
       Look::kReverse}};
}

void add_help(Drawing& drawing) {
  for (const char* line :
       {"", " q        quit; the run goes on", " s        order of workers: slowest first, by rank, by host",
        " + -      resize, after a confirmation; further presses change the number",
        " r        replace the chosen worker by a new process, after a confirmation",
        " d        drain the chosen worker's host, after a confirmation",
        " u        let a drained host have workers again, after a confirmation; further presses choose another one",
        " arrows   choose a worker; also j k, page up, page down", " h        this help, and back", "",
        " Bars: compute, waiting for data, communication with the wait for slower workers."}) {
    drawing.add(line);
  }
}

// How the rows below the head are divided.
struct Rows {
  std::size_t chart = 0;
  std::size_t workers = 0;
  std::size_t hosts = 0;
  std::size_t events = 0;
};

Rows divided(std::size_t rows, std::size_t worker_count, std::size_t host_count) {
  Rows out;
  out.chart = rows >= 12 ? std::clamp<std::size_t>(rows / 5, kSmallestChart, 12) : 0;
  out.events = rows >= 16 ? std::clamp<std::size_t>(rows / 5, 3, 12) : 0;
  out.hosts = rows >= 10 ? (rows >= kTallRows ? std::min<std::size_t>(host_count, rows / 6) + 1 : 1) : 0;
  const std::size_t rest = rows - out.chart - out.events - out.hosts;
  out.workers = std::min(rest, worker_count + 1);
  // Rows that nobody needs show more of the past.
  if (out.events > 0) out.events += rest - out.workers;
  return out;
}

void leave_ascii(std::vector<ScreenLine>& lines) {
  for (ScreenLine& line : lines) {
    for (Piece& piece : line) piece.text = with_ascii_mark(std::move(piece.text));
  }
}

}  // namespace

std::vector<ScreenLine> draw(const Model& model, const ScreenSize& size) {
  Drawing drawing{model, model.view(), size};
  if (size.rows == 0 || size.columns == 0) return {};
  add_head(drawing);
  if (drawing.lines.size() + 1 > size.rows) drawing.lines.resize(size.rows - 1);
  const std::size_t last = size.rows - 1;
  if (model.shows_help()) {
    add_help(drawing);
  } else {
    const Rows rows =
        divided(last - std::min(last, drawing.lines.size()), model.workers().size(), model.view().hosts.size());
    add_chart(drawing, rows.chart);
    add_workers(drawing, rows.workers);
    add_hosts(drawing, rows.hosts);
    add_events(drawing, rows.events);
  }
  drawing.lines.resize(last);
  drawing.add(last_line(drawing));
  if (!size.unicode) leave_ascii(drawing.lines);
  return drawing.lines;
}

std::string plain(const ScreenLine& line) {
  std::string text;
  for (const Piece& piece : line) text += piece.text;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace elastictrain::cli::top
