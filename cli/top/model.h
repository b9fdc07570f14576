// Purpose: the state of `top`: the view of a run, its past, and the answers to keys. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

// The view that `top` shows of a run: the answer to a status request, as typed values. Pure. Fields that are
// missing or of another type keep their defaults.

namespace elastictrain::cli::top {

struct Worker {
  std::int64_t id = 0;
  std::optional<std::int64_t> rank;
  std::string host;
  std::string phase;
  std::string doing;  // what the program says it is doing
  std::int64_t step = 0;
  std::int64_t pid = 0;
  double step_ms = 0;
  double compute_ms = 0;
  double data_ms = 0;
  double communicate_ms = 0;
  double quiet_ms = 0;
};

struct Host {
  std::string name;
  std::string phase;
  std::int64_t workers = 0;
  std::int64_t slots = 0;
};

struct View {
  std::string name;
  std::string phase;
  std::int64_t world_size = 0;
  std::int64_t target_size = 0;
  std::int64_t generation = 0;
  double uptime_s = 0;
  double epoch = 0;
  std::int64_t epochs = 0;  // 0: not known
  double epoch_fraction = 0;
  std::optional<double> time_left_s;
  std::int64_t step = 0;
  double loss = 0;
  double samples_per_s = 0;
  std::optional<double> efficiency;
  double cost = 0;
  double worker_seconds = 0;
  double idle_s = 0;
  std::int64_t recoveries = 0;
  std::string size_reason;
  std::string last_change;
  std::string journal;
  std::vector<Worker> workers;
  std::vector<Host> hosts;
};

View view_of(const nlohmann::json& status);

// The state of `top`: the newest view of the run, its past, the order and the selection of workers, and a
// question that waits for an answer. Pure: keys and views go in, requests to the run come out.

enum class Key : std::uint8_t {
  kNone,
  kQuit,
  kSort,
  kGrow,
  kShrink,
  kReplace,
  kDrain,
  kUndrain,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kYes,
  kNo,
  kHelp
};

enum class Order : std::uint8_t { kSlowest, kRank, kHost };

struct Question {
  std::string text;  // "replace rank 1 (w2 on node1)?"
  nlohmann::json request;
  std::int64_t size = 0;  // of a resize
  std::string host = {};  // of an undrain
};

class Model {
 public:
  static constexpr std::size_t kMaxPast = 600;
  static constexpr std::size_t kMaxEvents = 100;

  void take(View view);
  void add_event(std::string line);
  // The run does not answer any more, and why.
  void lost(std::string why) {
    notice_ = std::move(why);
    is_over_ = true;
  }
  void answered(std::string text) { notice_ = std::move(text); }

  // The request that an answered question leads to.
  std::optional<nlohmann::json> press(Key key);
  bool wants_to_quit() const { return quits_; }

  const View& view() const { return view_; }
  const std::deque<double>& past() const { return past_; }  // samples a second, oldest first
  const std::deque<std::string>& events() const { return events_; }
  const std::optional<Question>& question() const { return question_; }
  const std::string& notice() const { return notice_; }
  Order order() const { return order_; }
  bool shows_help() const { return shows_help_; }
  bool is_over() const { return is_over_; }
  // In the chosen order.
  const std::vector<Worker>& workers() const { return view_.workers; }
  std::size_t selected() const { return selected_; }
  double usual_compute_ms() const { return usual_compute_ms_; }

 private:
  void sort();
  void select(std::int64_t by);
  void ask_size(std::int64_t by);
  void ask_replace();
  void ask_drain();
  void ask_undrain();
  bool changes_question(Key key) const;

  View view_;
  std::deque<double> past_;
  std::deque<std::string> events_;
  std::optional<Question> question_;
  std::string notice_;
  Order order_ = Order::kSlowest;
  std::size_t selected_ = 0;
  std::int64_t selected_id_ = -1;  // stays selected when the order changes; -1: none chosen
  double usual_compute_ms_ = 0;
  bool shows_help_ = false;
  bool quits_ = false;
  bool is_over_ = false;
};

}  // namespace elastictrain::cli::top
