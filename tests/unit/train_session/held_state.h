// Purpose: stands between a joiner and its donors and holds their state: handshakes and headers pass, what follows
// waits until the test lets it go. So a test decides what happens while a state is on its way, whatever its size.
//
// Ownership: its sockets. Thread: the test's, in pump(). Errors: a failed system call fails the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fake_run.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::test {

class HeldState {
 public:
  HeldState();
  ~HeldState();
  HeldState(const HeldState&) = delete;
  HeldState& operator=(const HeldState&) = delete;

  // Of a member on this host that other members do not share memory through: not the first rank.
  void stand_before(protocol::Endpoint& joiner);
  // Moves what may pass. True, so that it can be part of a condition that is asked again and again.
  bool pump();
  void let_go() { holds_ = false; }
  // What has not passed never will: the joiner's connections end, while all processes live on.
  void cut_off();
  // Whether every donor has sent more than its header.
  bool holds_something() const;

 private:
  struct Way {
    int donor = -1;
    int joiner = -1;
    std::vector<char> from_donor;  // everything so far
    std::size_t passed = 0;        // of it
    bool is_cut = false;
  };

  void accept_donors();
  void move(Way& way);
  std::size_t may_pass(const Way& way) const;

  int listener_ = -1;
  std::string name_;
  std::string joiner_name_;
  std::vector<Way> ways_;
  bool holds_ = true;
};

// Two workers that train and a third one that joins, with a held state.
struct HeldGrowth {
  explicit HeldGrowth(const TestWorkerOptions& options);

  void until(const std::function<bool()>& condition, const std::string& what);
  Step first_step() { return run[workers[0]].active.at(plan.generation).first_step; }
  // The joiner gets its state.
  void let_go();
  void train_on_and_stop();

  FakeRun run;
  HeldState state;
  std::vector<WorkerId> workers;
  protocol::GenerationPlan plan;
};

}  // namespace elastictrain::test
