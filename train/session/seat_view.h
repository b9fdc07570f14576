// Purpose: shows the program its seat, which for it is constant from one boundary to the next. Ownership: the worker;
// the view and the callback are the program's. Thread: the training thread. Failure: what the callback
// throws, after which the session has failed.
#pragma once

#include "train/session/lifecycle.h"
#include "train/session/model_averaging.h"
#include "train/session/program.h"
#include "train/session/reports.h"
#include "train/session/seat.h"

namespace elastictrain::session {

class SeatView {
 public:
  SeatView(const std::function<void(const Change&)>& on_change, ProgramView& view, const Seat& seat,
           const ModelAveraging& averaging, const Reports& reports, Lifecycle& lifecycle)
      : on_change_(on_change),
        view_(view),
        seat_(seat),
        averaging_(averaging),
        reports_(reports),
        lifecycle_(lifecycle) {}

  // The program has not seen the current seat.
  bool is_behind() const { return view_.generation != seat_.generation; }
  void publish() { show(view_.world_size, false); }
  // This worker's first generation. `present`: members that were there before; 0 in the first generation of a run.
  void publish_first(std::uint32_t present) { show(present, true); }

 private:
  void show(std::uint32_t previous_world_size, bool joined_now);
  void report_missing_model();
  void call_program(const Change& change);

  const std::function<void(const Change&)>& on_change_;
  ProgramView& view_;
  const Seat& seat_;
  const ModelAveraging& averaging_;
  const Reports& reports_;
  Lifecycle& lifecycle_;
};

}  // namespace elastictrain::session
