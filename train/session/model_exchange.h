// Purpose: exchanges between replicas that are not bit-identical: their models, averaged with all others in every step
// (SMA, KungFu's synchronous averaging: v <- (1 - a) v + a avg(v), then the local gradient; algorithms B6) or with one
// other (pair averaging: v <- (v + v_peer) / 2), and the whole state when all replicas are made equal again.
//
// A collective only reads the program's memory. Its result is kept here and applied when the step is committed, or
// dropped. A failed exchange therefore changes nothing and can be repeated on another communicator. v + u + a (avg(v) -
// v), with u the local update, equals v <- (1 - a) v + a avg(v) followed by u.
//
// Ownership: the program owns the memory. This class holds one more copy of the model while models are exchanged, and
// one of all other state while replicas are made equal. Thread: one call at a time; collectives may run on the
// reducer's thread while the program reads its model. Errors: the communicator's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

namespace elastictrain::session {

class ModelExchange {
 public:
  void add_state(std::span<std::byte> bytes);
  // Marks the buffer that was added last as a model.
  void model_is(std::span<float> model);
  // A buffer is at another address now.
  void moved(const std::byte* from, std::byte* to);
  bool has_model() const { return !models_.empty(); }
  std::size_t model_floats() const { return model_floats_; }

  // Averages the models of all ranks that contribute; `lane` rides on it. A rank that does not contribute (it is still
  // receiving its model) keeps its own.
  Status average(comm::Communicator& communicator, std::span<float> lane, bool contributes);
  // Exchanges models with one other rank in both directions. Does nothing if that rank does not contribute.
  Status swap(comm::Communicator& communicator, std::uint32_t partner, bool contributes);
  // The same with a model that was read from another rank; `model` gets other memory.
  void receive(std::vector<float>& model);
  // All models end to end.
  void copy_models(std::vector<float>& into) const;
  // Moves each model towards the received one by `fraction` of the difference.
  void keep_correction(float fraction);
  void drop_correction() { has_correction_ = false; }
  // Adds the correction to the models, once.
  void apply_correction();

  // Brings the average of all models and `root`'s other state, the same bits on every rank. Kept until adopt().
  Status gather_equal_state(comm::Communicator& communicator, std::uint32_t root, bool contributes);
  void adopt();

 private:
  void fill_from_models(bool contributes);
  void divide_by_contributors();

  std::vector<std::span<float>> models_;
  std::vector<std::span<std::byte>> other_state_;
  std::size_t model_floats_ = 0;
  std::vector<float> received_;  // all models end to end, then the number of contributors
  std::vector<float> sent_;      // the same of this rank, during an exchange of models
  std::vector<std::byte> received_state_;
  bool has_correction_ = false;
  bool contributed_ = false;
};

}  // namespace elastictrain::session
