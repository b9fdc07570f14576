#include "train/session/seat_view.h"

namespace elastictrain::session {

void SeatView::show(std::uint32_t previous_world_size, bool joined_now) {
  view_.rank = seat_.rank;
  view_.local_rank = seat_.local_rank;
  view_.world_size = seat_.world_size();
  view_.generation = seat_.generation;
  report_missing_model();
  if (!on_change_) return;
  call_program({.generation = view_.generation,
                .rank = view_.rank,
                .world_size = view_.world_size,
                .previous_world_size = previous_world_size,
                .joined_now = joined_now,
                .reason = seat_.reason});
}

void SeatView::call_program(const Change& change) {
  try {
    on_change_(change);
  } catch (...) {
    lifecycle_.failed = true;
    throw;
  }
}

void SeatView::report_missing_model() {
  const bool is_asked_to_average = seat_.synchronization != protocol::Synchronization::kGradients;
  if (!is_asked_to_average || averaging_.applies() || seat_.rank != 0) return;
  reports_.tell("synchronization", "gradients are averaged: the program shares no model; call share_model() for it");
}

}  // namespace elastictrain::session
