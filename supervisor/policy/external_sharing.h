// Purpose: a sharing policy that is a program or a library of the user: live, where nobody waits for its answer, and
// behind the interface of the built-in ones for the simulator, which does.
//
// Ownership: owns the process, which ends with this object, or a state of the shared object. Thread: the io_context's.
// Errors: open() says why it cannot be used. Later an answer has a problem; a program is killed then and not asked
// again (program.h), a library is.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "heuristics/sharing/policy.h"
#include "supervisor/policy/external_policy.h"
#include "supervisor/policy/program.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

class OutsideSharing {
 public:
  struct Answer {
    heuristics::sharing::Decision decision;  // with its problem
    std::string text;                        // as it was given; empty: it gave none
    bool is_last = false;                    // the program has failed, and gives no more
  };
  struct Handlers {
    std::function<void(Answer)> answered;                  // not before ask() has returned
    std::function<void(const std::string& line)> on_line;  // a line of a program, for people
  };
  using ViewPointer = std::shared_ptr<const heuristics::sharing::View>;

  static Result<std::unique_ptr<OutsideSharing>> open(asio::io_context& io, const Outside& outside, std::uint64_t seed,
                                                      Handlers handlers);
  OutsideSharing(const OutsideSharing&) = delete;
  OutsideSharing& operator=(const OutsideSharing&) = delete;

  // One view at a time; an answer follows, within the time-out of the program. `text`: the view as JSON.
  void ask(ViewPointer view, const std::string& text);
  bool has_failed() const { return program_ && program_->has_failed(); }

 private:
  OutsideSharing(asio::io_context& io, Handlers handlers) : io_(io), handlers_(std::move(handlers)) {}
  Status start(const Outside& outside, std::uint64_t seed);
  Status take(const std::string& line);
  void fail(const std::string& why);
  void ask_library(const std::string& text);

  asio::io_context& io_;
  Handlers handlers_;
  ViewPointer asked_;
  std::string wrong_line_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it gone
  std::unique_ptr<LibraryText> library_;
  std::unique_ptr<Program> program_;
};

// Every state has a process, or a state of the library, of its own. An answer with a problem is a decision with it.
heuristics::sharing::PolicySpec outside_spec(const Outside& outside, std::uint64_t seed);

}  // namespace elastictrain::policy
