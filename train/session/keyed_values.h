// Purpose: values of one step that the program names by keys and starts in any order. The order of the first rank
// counts: its n-th key says what the n-th such collective of the step is, and every other worker waits until it has
// started that key, too. So the ranks stay in step whatever order each of them has, and a repetition after a loss, with
// another first rank perhaps, is the same again.
//
// Ownership: the worker. Thread: start() and close() on the training thread, run() where collectives run. Failure: that
// of the collective; kInvalid if the ranks have started different keys.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "train/session/reducer.h"

namespace elastictrain::session {

class KeyedValues {
 public:
  static constexpr std::size_t kMaxKeyBytes = 120;

  void begin_step();
  bool has_started(std::string_view key);  // in this step
  // A key that has not been started.
  void start(std::string_view key, Collective work);
  // The training thread starts no other key until what has been started is done.
  void close();
  void reopen();
  // The collective of this place in the first rank's order, from 0.
  Status run(std::size_t place, comm::Communicator& others);
  std::size_t started() const { return order_.size(); }

 private:
  Result<Collective> await(const std::string& key, std::size_t place);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> order_;  // in which this worker has started them
  std::map<std::string, Collective, std::less<>> work_;
  bool closed_ = false;
};

}  // namespace elastictrain::session
