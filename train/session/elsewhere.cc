#include "train/session/elsewhere.h"

#include <chrono>
#include <exception>
#include <utility>

namespace elastictrain::session {
namespace {

// A peer that has all sums of its last step leaves, and may do so before others have theirs, which need it no more.
constexpr std::chrono::seconds kTimeWithoutPeers{10};

// What the program's function says; an exception would end the thread that reduces.
template <class Call>
std::string said_by(const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return std::string("the program's function threw: ") + error.what();
  } catch (...) {
    return "the program's function threw an exception that is not a std::exception";
  }
}

}  // namespace

Status ElsewhereSums::reduce(const OpenStep& step, Bucket& bucket) {
  if (step.averages) {
    return Error{ErrorCode::kInvalid,
                 "workers average models from this step on, which sums that are made elsewhere do not allow"};
  }
  if (is_its_own_sum(step, bucket)) return {};
  return gate_.run("all-reduce", [&] { return start(step, bucket); });
}

// Behind an interrupted sum the program's memory holds something else.
bool ElsewhereSums::is_its_own_sum(const OpenStep& step, const Bucket& bucket) const {
  return assignment_.world_size() == 1 && step.has_samples() && !bucket.copied && !step.wants_norm;
}

// An abort ends all sums, and what fails elsewhere fails at the others, too. A peer of which only its end is known is
// for those that no supervisor tells of a loss.
bool ElsewhereSums::is_broken() {
  auto& others = *assignment_.communicator;
  if (!others.check_self()) return true;
  if (others.check_peers()) {
    peers_gone_since_.reset();
    return false;
  }
  if (!peers_gone_since_) peers_gone_since_ = Clock::now();
  return Clock::now() - *peers_gone_since_ > kTimeWithoutPeers;
}

SumElsewhere ElsewhereSums::describe(const OpenStep& step, const Bucket& bucket) {
  const bool has_input = step.has_samples();
  return {.step = bucket.elsewhere->step,
          .bucket = bucket.elsewhere->number,
          .generation = assignment_.generation,
          .rank = assignment_.rank,
          .world_size = assignment_.world_size(),
          .token = assignment_.token,
          .encryption = static_cast<std::uint32_t>(encryption_),
          .scale = has_input ? step.division.my_weight() : 0,
          .has_input = has_input,
          .keeps = host_.keeps_inputs(),
          .is_kept = has_input && bucket.copied,
          .wants_norms = step.wants_norm,
          .is_broken = [this] { return is_broken(); }};
}

Status ElsewhereSums::start(const OpenStep& step, Bucket& bucket) {
  auto& others = *assignment_.communicator;
  Status exchange;
  peers_gone_since_.reset();
  SumElsewhere sum = describe(step, bucket);
  sum.all_gather = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
    if (exchange && all.size() != mine.size() * others.world_size()) {
      exchange = Error{ErrorCode::kInvalid, "all_gather() needs room for one block of every rank"};
    }
    if (exchange) exchange = others.all_gather(mine, all);
    return exchange ? std::string() : exchange.error().message;
  };
  bucket.copied = bucket.copied || (sum.has_input && sum.keeps);
  finish_ = bucket.elsewhere->finish;
  std::string why = said_by([&] { return bucket.elsewhere->start(sum); });
  if (!exchange) return exchange;
  return why.empty() ? Status() : failed(std::move(why));
}

// The others may wait for these sums, and see it at once.
Status ElsewhereSums::failed(std::string why) const {
  assignment_.communicator->abort();
  return Error{ErrorCode::kPeerLost, std::move(why)};
}

Status ElsewhereSums::finish(OpenStep& step) {
  if (!finish_) return {};
  Status status = gate_.run("all-reduce", [&] {
    SumsElsewhere sums{.is_broken = [this] { return is_broken(); }};
    const Status ended = end(sums);
    step.add({.local_square_sum = sums.local_square_sum, .reduced_square_sum = sums.reduced_square_sum});
    return ended;
  });
  abandon();  // where no collective may begin
  return status;
}

Status ElsewhereSums::end(SumsElsewhere& sums) {
  const auto finish = std::exchange(finish_, nullptr);
  std::string why = said_by([&] { return finish(sums); });
  return why.empty() ? Status() : failed(std::move(why));
}

void ElsewhereSums::abandon() {
  if (!finish_) return;
  SumsElsewhere sums{.failed = true, .is_broken = [] { return true; }};
  const auto finish = std::exchange(finish_, nullptr);
  (void)said_by([&] { return finish(sums); });
}

}  // namespace elastictrain::session
