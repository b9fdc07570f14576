// Purpose: the exchange of models with one other worker. The partner is a function of the step and of the reachability
// of all ranks, which is gathered once in each generation. Ownership: the worker. Thread: the thread that reduces.
// Failure: that of the communicator.
#pragma once

#include <optional>

#include "supervisor/protocol/result.h"
#include "train/peers/pair_matching.h"
#include "train/session/course.h"
#include "train/session/model_exchange.h"
#include "train/session/seat.h"

namespace elastictrain::peers {

class PairAveraging {
 public:
  PairAveraging(session::ModelExchange& models, const session::Seat& seat, const session::Course& course)
      : models_(models), seat_(seat), course_(course) {}

  Status swap_models(bool contributes);

 private:
  Status learn_reach();

  session::ModelExchange& models_;
  const session::Seat& seat_;
  const session::Course& course_;
  std::optional<Reach> reach_;
  Generation reach_of_ = 0;  // the generation for which `reach_` holds
};

}  // namespace elastictrain::peers
