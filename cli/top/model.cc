#include "cli/top/model.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cli/output/printable.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli::top {
namespace {

using Json = nlohmann::json;

double real(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::int64_t whole(const Json& object, const char* name) {
  const double value = real(object, name);
  return value > -1e15 && value < 1e15 ? static_cast<std::int64_t>(value) : 0;
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>(), Lines::kOne) : "";
}

const Json& list(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kNone;
}

Worker worker_of(const Json& json) {
  Worker worker;
  worker.id = whole(json, "id");
  const auto rank = json.find("rank");
  if (rank != json.end() && rank->is_number()) worker.rank = whole(json, "rank");
  worker.host = text(json, "host");
  worker.phase = text(json, "phase");
  worker.doing = text(json, "program_phase");
  worker.step = whole(json, "step");
  worker.pid = whole(json, "pid");
  worker.step_ms = real(json, "step_ms");
  worker.compute_ms = real(json, "compute_ms");
  worker.data_ms = real(json, "data_wait_ms");
  worker.communicate_ms = real(json, "communicate_ms");
  worker.quiet_ms = real(json, "quiet_ms");
  return worker;
}

}  // namespace

View view_of(const Json& status) {
  View view;
  if (!status.is_object()) return view;
  view.name = text(status, "name");
  view.phase = text(status, "phase");
  view.world_size = whole(status, "world_size");
  view.target_size = whole(status, "target_size");
  view.generation = whole(status, "generation");
  view.uptime_s = real(status, "uptime_s");
  view.epoch = real(status, "epoch");
  view.epochs = whole(status, "epochs");
  view.epoch_fraction = real(status, "epoch_fraction");
  const auto left = status.find("time_left_s");
  if (left != status.end() && left->is_number()) view.time_left_s = left->get<double>();
  view.step = whole(status, "step");
  view.loss = real(status, "loss");
  view.samples_per_s = real(status, "samples_per_s");
  const auto efficiency = status.find("scaling_efficiency");
  if (efficiency != status.end() && efficiency->is_number()) view.efficiency = efficiency->get<double>();
  view.cost = real(status, "cost");
  view.worker_seconds = real(status, "worker_seconds");
  view.idle_s = real(status, "idle_s");
  view.recoveries = whole(status, "recoveries");
  view.size_reason = text(status, "size_reason");
  view.last_change = text(status, "last_change");
  view.journal = text(status, "journal");
  for (const Json& worker : list(status, "workers")) {
    if (worker.is_object()) view.workers.push_back(worker_of(worker));
  }
  for (const Json& host : list(status, "hosts")) {
    if (!host.is_object()) continue;
    view.hosts.push_back({text(host, "host"), text(host, "phase"), whole(host, "workers"), whole(host, "slots")});
  }
  return view;
}

namespace {

constexpr std::int64_t kPage = 10;
constexpr std::int64_t kLastRank = INT64_MAX;

double median_compute_ms(const std::vector<Worker>& workers) {
  std::vector<double> times;
  for (const Worker& worker : workers) {
    if (worker.compute_ms > 0) times.push_back(worker.compute_ms);
  }
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::string named(const Worker& worker) {
  return "rank " + std::to_string(*worker.rank) + " (w" + std::to_string(worker.id) + " on " + worker.host + ")";
}

}  // namespace

void Model::take(View view) {
  view_ = std::move(view);
  past_.push_back(std::max(0.0, view_.samples_per_s));
  if (past_.size() > kMaxPast) past_.pop_front();
  usual_compute_ms_ = median_compute_ms(view_.workers);
  is_over_ = false;
  sort();
}

void Model::add_event(std::string line) {
  events_.push_back(std::move(line));
  if (events_.size() > kMaxEvents) events_.pop_front();
}

void Model::sort() {
  const auto rank = [](const Worker& worker) { return worker.rank.value_or(kLastRank); };
  const auto less = [&](const Worker& a, const Worker& b) {
    if (order_ == Order::kSlowest && a.compute_ms != b.compute_ms) return a.compute_ms > b.compute_ms;
    if (order_ == Order::kHost && a.host != b.host) return a.host < b.host;
    return std::tuple(rank(a), a.id) < std::tuple(rank(b), b.id);
  };
  std::sort(view_.workers.begin(), view_.workers.end(), less);
  const auto kept = std::find_if(view_.workers.begin(), view_.workers.end(),
                                 [this](const Worker& worker) { return worker.id == selected_id_; });
  selected_ = kept == view_.workers.end() ? 0 : static_cast<std::size_t>(kept - view_.workers.begin());
  if (kept == view_.workers.end()) selected_id_ = -1;
}

void Model::select(std::int64_t by) {
  if (view_.workers.empty()) return;
  const auto last = static_cast<std::int64_t>(view_.workers.size()) - 1;
  selected_ = static_cast<std::size_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(selected_) + by, 0, last));
  selected_id_ = view_.workers[selected_].id;
}

// Further presses change the number before it is confirmed.
void Model::ask_size(std::int64_t by) {
  const bool goes_on = question_ && question_->size > 0;
  const std::int64_t size = std::max<std::int64_t>(1, (goes_on ? question_->size : view_.target_size) + by);
  question_ = Question{"resize from " + std::to_string(view_.world_size) + " to " +
                           protocol::counted(static_cast<std::uint64_t>(size), "worker") + "?",
                       {{"command", "resize"}, {"workers", size}},
                       size};
}

void Model::ask_replace() {
  if (selected_ >= view_.workers.size() || !view_.workers[selected_].rank) {
    notice_ = "choose a worker with a rank to be replaced";
    return;
  }
  const Worker& worker = view_.workers[selected_];
  question_ = Question{"replace " + named(worker) + "?", {{"command", "replace"}, {"rank", *worker.rank}}};
}

void Model::ask_drain() {
  if (selected_ >= view_.workers.size()) return;
  const std::string& host = view_.workers[selected_].host;
  question_ =
      Question{"drain host " + host + ", so that its workers leave it?", {{"command", "drain"}, {"host", host}}};
}

// A further press goes on to the next drained host.
void Model::ask_undrain() {
  std::vector<std::string> drained;
  for (const Host& host : view_.hosts) {
    if (host.phase == "drained" || host.phase == "draining") drained.push_back(host.name);
  }
  std::sort(drained.begin(), drained.end());
  if (drained.empty()) {
    question_.reset();
    notice_ = "no host is drained";
    return;
  }
  const std::string last = question_ ? question_->host : "";
  auto next = std::upper_bound(drained.begin(), drained.end(), last);
  if (next == drained.end()) next = drained.begin();
  question_ = Question{.text = "undrain host " + *next + ", so that it may have workers again?",
                       .request = {{"command", "undrain"}, {"host", *next}},
                       .host = *next};
}

bool Model::changes_question(Key key) const {
  if (key == Key::kUndrain) return !question_->host.empty();
  return key == Key::kGrow || key == Key::kShrink;
}

std::optional<nlohmann::json> Model::press(Key key) {
  if (key == Key::kNone) return std::nullopt;
  if (question_ && !changes_question(key)) {
    const Question asked = *std::exchange(question_, std::nullopt);
    if (key == Key::kYes) return asked.request;
    notice_ = "nothing was changed";
    return std::nullopt;
  }
  notice_.clear();
  switch (key) {
    case Key::kQuit:
      quits_ = true;
      break;
    case Key::kSort:
      order_ = order_ == Order::kSlowest ? Order::kRank : order_ == Order::kRank ? Order::kHost : Order::kSlowest;
      sort();
      break;
    case Key::kGrow:
      ask_size(1);
      break;
    case Key::kShrink:
      ask_size(-1);
      break;
    case Key::kReplace:
      ask_replace();
      break;
    case Key::kDrain:
      ask_drain();
      break;
    case Key::kUndrain:
      ask_undrain();
      break;
    case Key::kUp:
      select(-1);
      break;
    case Key::kDown:
      select(1);
      break;
    case Key::kPageUp:
      select(-kPage);
      break;
    case Key::kPageDown:
      select(kPage);
      break;
    case Key::kHelp:
      shows_help_ = !shows_help_;
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace elastictrain::cli::top
