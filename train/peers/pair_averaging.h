// Purpose: the exchange of models with one other worker. Where all meet both take part: the partner is a function of
// the step and of the reachability of all ranks, which is gathered once in each generation. Between two fences a worker
// reads the model that another one has published (AD-PSGD), and waits for nothing.
//
// Ownership: the worker. Thread: the thread that reduces; publish_model() on the training thread, not at the same time.
// Failure: that of the communicator; a model that cannot be read is not averaged with.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/peers/pair_matching.h"
#include "train/peers/store_access.h"
#include "train/session/course.h"
#include "train/session/model_exchange.h"
#include "train/session/seat.h"

namespace elastictrain::peers {

class PairAveraging {
 public:
  PairAveraging(session::ModelExchange& models, const session::Seat& seat, const session::Course& course,
                StoreAccess& store)
      : models_(models), seat_(seat), course_(course), store_(store) {}

  Status swap_models(bool contributes);
  // With the model of a random other worker, if the one that was asked for has arrived, and asks for the next.
  void take_read_model();
  void publish_model();

 private:
  Status learn_reach();

  session::ModelExchange& models_;
  const session::Seat& seat_;
  const session::Course& course_;
  StoreAccess& store_;
  std::vector<float> memory_;  // for the next model that arrives, or is published
  std::minstd_rand random_;
  std::optional<Reach> reach_;
  Generation reach_of_ = 0;  // the generation for which `reach_` holds
};

}  // namespace elastictrain::peers
