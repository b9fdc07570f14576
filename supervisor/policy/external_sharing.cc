#include "supervisor/policy/external_sharing.h"

#include <asio/post.hpp>
#include <utility>

#include "supervisor/policy/sharing_json.h"

namespace elastictrain::policy {

namespace sharing = heuristics::sharing;

Result<std::unique_ptr<OutsideSharing>> OutsideSharing::open(asio::io_context& io, const Outside& outside,
                                                             std::uint64_t seed, Handlers handlers) {
  std::unique_ptr<OutsideSharing> opened(new OutsideSharing(io, std::move(handlers)));
  if (const Status started = opened->start(outside, seed); !started.ok()) return started.error();
  return opened;
}

Status OutsideSharing::start(const Outside& outside, std::uint64_t seed) {
  if (!outside.library.empty()) {
    auto library = LibraryText::open(outside.library, outside.argument, seed);
    if (!library.ok()) return library.error();
    library_ = std::move(*library);
    return {};
  }
  const auto answered = [this](const std::string& line) { return take(line); };
  const auto failed = [this](const std::string& why) { fail(why); };
  auto program = Program::start(io_, outside, {answered, failed, handlers_.on_line});
  if (!program.ok()) return program.error();
  program_ = std::move(*program);
  return {};
}

void OutsideSharing::ask(ViewPointer view, const std::string& text) {
  asked_ = std::move(view);
  if (library_) return ask_library(text);
  if (program_->is_ready()) program_->ask(text);  // else it is about to fail
}

void OutsideSharing::ask_library(const std::string& text) {
  Answer answer;
  auto given = library_->decide(text);
  if (given.ok()) {
    answer.decision = sharing_decision(*given, *asked_);
    answer.text = std::move(*given);
    if (!answer.decision.problem.empty()) {
      answer.decision.problem = "the library returned an invalid decision: " + answer.decision.problem;
    }
  } else {
    answer.decision.problem = "the library " + given.error().message;
  }
  asio::post(io_, [this, life = std::weak_ptr(life_), answer = std::move(answer)]() mutable {
    if (!life.expired()) handlers_.answered(std::move(answer));
  });
}

Status OutsideSharing::take(const std::string& line) {
  Answer answer;
  answer.decision = sharing_decision(line, *asked_);
  answer.text = line;
  if (!answer.decision.problem.empty()) {
    wrong_line_ = line;
    return Error{ErrorCode::kInvalid, answer.decision.problem};
  }
  handlers_.answered(std::move(answer));
  return {};
}

void OutsideSharing::fail(const std::string& why) {
  Answer answer;
  answer.decision.problem = "the program " + why;
  answer.text = std::exchange(wrong_line_, {});
  answer.is_last = true;
  handlers_.answered(std::move(answer));
}

namespace {

// The loop is its own, so that whoever decides may wait for the answer.
class Waiting final : public sharing::State {
 public:
  Waiting(const Outside& outside, std::uint64_t seed) {
    auto opened =
        OutsideSharing::open(io_, outside, seed, {[this](auto answer) { take(std::move(answer)); }, [](auto&) {}});
    if (opened.ok()) outside_ = std::move(*opened);
    if (!opened.ok()) answer_.problem = opened.error().message;
  }
  std::unique_ptr<State> clone() const override { panic("the memory of a policy from outside cannot be copied"); }

  void decide(const sharing::View& view, sharing::Decision& decision) {
    if (!answer_.problem.empty() && (!outside_ || outside_->has_failed())) {
      decision.problem = answer_.problem;
      return;
    }
    has_answer_ = false;
    outside_->ask(OutsideSharing::ViewPointer(std::shared_ptr<void>(), &view), to_json(view));
    while (!has_answer_) {
      io_.restart();
      io_.run_one();
    }
    decision = answer_;
  }

 private:
  void take(OutsideSharing::Answer answer) {
    answer_ = std::move(answer.decision);
    has_answer_ = true;
  }

  asio::io_context io_{1};
  sharing::Decision answer_;
  bool has_answer_ = false;
  std::unique_ptr<OutsideSharing> outside_;
};

class OutsidePolicy final : public sharing::SharingPolicy {
 public:
  OutsidePolicy(Outside outside, std::uint64_t seed) : outside_(std::move(outside)), seed_(seed) {}
  std::unique_ptr<sharing::State> initial_state() const override { return std::make_unique<Waiting>(outside_, seed_); }
  void decide(const sharing::View& view, sharing::State& state, sharing::Rng&,
              sharing::Decision& decision) const override {
    static_cast<Waiting&>(state).decide(view, decision);
  }

 private:
  Outside outside_;
  std::uint64_t seed_;
};

}  // namespace

sharing::PolicySpec outside_spec(const Outside& outside, std::uint64_t seed) {
  sharing::PolicySpec spec;
  spec.name = short_name(outside);
  spec.help = "a policy from outside";
  spec.make = [outside, seed](const sharing::Settings&) { return std::make_unique<OutsidePolicy>(outside, seed); };
  spec.packs = true;
  spec.outside = true;
  return spec;
}

}  // namespace elastictrain::policy
