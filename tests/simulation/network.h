// Purpose: machines and the connections between the supervisor and its agents. A connection keeps the order of messages
// and delays them. Messages in transit when it breaks are lost. Messages held back by a partition arrive in order once
// it is healed.
//
// Ownership: the world. Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/rng.h"

namespace elastictrain::simulation {

struct Host {
  std::string name;
  std::uint32_t slots = 1;
  std::vector<std::uint32_t> leased;  // in a run of a cluster: the slots that it may use; empty: none
  bool local = false;                 // its launcher sees the agent's process itself
  bool on = true;
  bool offered = true;
  bool away = false;  // it was drained, or gave notice
  std::uint32_t slowness = 1;
  bool cut_up = false;    // nothing reaches the supervisor
  bool cut_down = false;  // nothing from it arrives
  bool cut_data = false;  // other hosts are unreachable
};

// One direction of a connection.
template <class Message>
class Pipe {
 public:
  using Take = std::function<void(const Message&)>;

  Pipe(EventQueue& queue, Rng& rng, std::function<bool()> cut) : queue_(queue), rng_(rng), cut_(std::move(cut)) {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void set_receiver(Take take, std::function<void()> at_end) {
    take_ = std::move(take);
    at_end_ = std::move(at_end);
  }
  void send(Message message) { schedule({std::move(message), false}); }
  // The sender's end is closed: the receiver sees it after all that was sent, if that still arrives.
  void close(bool keeps_what_travels) {
    if (!keeps_what_travels) ++epoch_, held_.clear();
    schedule({Message{}, true});
  }
  // The sender's machine has lost its power: with it all that was not delivered, and nobody says so.
  void vanish() { ++epoch_, held_.clear(); }
  bool holds_back() const { return !held_.empty(); }
  void look_again() {
    while (!held_.empty() && !cut_()) {
      const Item item = std::move(held_.front());
      held_.pop_front();
      give(item);
    }
  }

 private:
  struct Item {
    Message message;
    bool end = false;
  };

  void schedule(Item item) {
    const bool slow = rng_.chance(0.01);
    last_ = std::max(last_, queue_.now() + rng_.time(Micros(50), slow ? Micros(150'000) : Micros(2'500)));
    queue_.at(last_, [this, epoch = epoch_, item = std::move(item), life = std::weak_ptr<char>(life_)] {
      if (life.expired() || epoch != epoch_) return;
      if (cut_() || !held_.empty()) {
        held_.push_back(item);
      } else {
        give(item);
      }
    });
  }
  void give(const Item& item) {
    if (item.end) {
      if (at_end_) at_end_();
    } else if (take_) {
      take_(item.message);
    }
  }

  EventQueue& queue_;
  Rng& rng_;
  std::function<bool()> cut_;
  Take take_;
  std::function<void()> at_end_;
  Instant last_{};
  std::uint64_t epoch_ = 0;
  std::deque<Item> held_;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

// Between one agent's process and one supervisor's process.
struct Connection {
  Connection(EventQueue& queue, Rng& rng, const Host& host)
      : up(queue, rng, [&host] { return host.cut_up || !host.on; }),
        down(queue, rng, [&host] { return host.cut_down || !host.on; }) {}
  Pipe<protocol::AgentUp> up;
  Pipe<protocol::AgentDown> down;
};

}  // namespace elastictrain::simulation
