#include "elastictrain/plane.hpp"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/cpu_communicator.h"
#include "train/comm/data_listener.h"
#include "train/comm/socket.h"
#include "train/session/environment.h"
#include "train/session/gradients.h"
#include "train/session/plane_address.h"
#include "train/session/session_communicators.h"
#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

constexpr std::uint32_t kMaxBuckets = 65'536;

[[noreturn]] void fail(const std::string& what, const Error& error) {
  const std::string text = what + ": " + error.message;
  const bool is_final = error.code == ErrorCode::kInvalid || error.code == ErrorCode::kMismatch;
  if (is_final) throw SessionError(text);
  throw SessionInterrupted(text);
}

comm::Element element_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return comm::Element::kFloat32;
    case DataType::kFloat16:
      return comm::Element::kFloat16;
    case DataType::kBFloat16:
      return comm::Element::kBfloat16;
    default:
      throw SessionError("Plane::all_reduce() of values that are neither kFloat32 nor kFloat16 nor kBFloat16");
  }
}

}  // namespace

// The listener lives as long as the plane, the communicator as long as its generation. The lock is for abort(): nothing
// waits for another rank under it.
class __attribute__((visibility("hidden"))) Plane::Impl {
 public:
  Impl();

  // In a forked child: the connections are its parent's.
  bool is_inherited() const { return process_ != ::getpid(); }
  const protocol::Endpoint& endpoint() const { return listener_->endpoint(); }
  void build(const PlaneWorld& world);
  PlaneNorms all_reduce(const PlaneSum& sum);
  void abort(Generation generation) noexcept;

 private:
  void require_own_process() const;
  comm::BuildSpec spec_of(const PlaneWorld& world) const;
  std::shared_ptr<comm::CancelToken> begin_build(Generation generation);
  void end_build(std::shared_ptr<comm::Communicator> communicator);
  std::shared_ptr<comm::Communicator> usable() const;
  session::Bucket& bucket_of(const PlaneSum& sum);

  const pid_t process_ = ::getpid();
  session::Environment environment_;
  std::unique_ptr<comm::DataListener> listener_;
  session::InputCopies copies_;
  session::HostInputs inputs_{copies_};
  session::NarrowGradients narrow_;
  // What is left of a bucket from one try of its step to the next.
  struct Kept {
    session::Bucket bucket;
    std::uint64_t step = 0;
  };
  std::deque<Kept> kept_;  // index = number of the bucket

  mutable std::mutex mutex_;
  Generation generation_ = 0;          // that is connected, or is being so
  std::optional<Generation> aborted_;  // with those before it
  std::shared_ptr<comm::Communicator> communicator_;
  std::shared_ptr<comm::CancelToken> building_;
};

Plane::Impl::Impl() {
  auto environment = session::read_environment();
  if (!environment) throw SessionError(environment.error().message);
  environment_ = std::move(*environment);
  auto listener =
      comm::DataListener::open({.host_key = environment_.host_key, .addresses = environment_.bind_addresses});
  if (!listener) throw SessionError(listener.error().message);
  listener_ = std::move(*listener);
  if (!session::write_endpoint(listener_->endpoint(), kEndpointBytes)) {
    throw SessionError("the addresses of this host in ELASTICTRAIN_BIND are too many for a plane; name fewer");
  }
}

void Plane::Impl::require_own_process() const {
  if (is_inherited())
    throw SessionError("this process was forked from the one that has the plane, which alone uses it");
}

comm::BuildSpec Plane::Impl::spec_of(const PlaneWorld& world) const {
  const auto& own = environment_;
  const std::size_t ranks = world.endpoints.size() / kEndpointBytes;
  if (ranks == 0 || world.endpoints.size() % kEndpointBytes != 0 || world.rank >= ranks) {
    throw SessionError("Plane::build(): there is no endpoint of " + std::to_string(kEndpointBytes) +
                       " bytes for this rank");
  }
  if (world.encryption >= protocol::kEncryptionNames.size() ||
      static_cast<protocol::Encryption>(world.encryption) < own.encryption) {
    throw SessionError("Plane::build(): the encryption is not that of ELASTICTRAIN_ENCRYPTION in this process");
  }
  comm::BuildSpec spec{.generation = world.generation,
                       .token = session::plane_token(world.token, world.index),
                       .rank = world.rank,
                       .transport = own.transport,
                       .encryption = static_cast<protocol::Encryption>(world.encryption),
                       .algorithm = own.algorithm,
                       .deadline = std::chrono::steady_clock::now() + world.time_limit,
                       .processors = own.processors};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto endpoint = session::read_endpoint(world.endpoints.subspan(rank * kEndpointBytes, kEndpointBytes));
    if (!endpoint) throw SessionError("Plane::build(): the endpoint of rank " + std::to_string(rank) + " is none");
    spec.peers.push_back(std::move(*endpoint));
  }
  return spec;
}

// All ranks have completed or given up their sums of the generation before: their sessions have met in this one.
void Plane::Impl::build(const PlaneWorld& world) {
  require_own_process();
  const auto spec = spec_of(world);
  const auto cancel = begin_build(world.generation);
  const std::string what = "the plane of generation " + std::to_string(world.generation);
  if (!cancel) fail(what, {ErrorCode::kAborted, "it was aborted"});
  if (spec.peers.size() == 1) return end_build(std::make_shared<session::SoloCommunicator>(world.generation));
  auto built = comm::build_cpu_communicator(spec, *listener_, *cancel);
  end_build(built ? std::move(built->communicator) : nullptr);
  if (!built) fail(what, built.error());
}

// Null: this generation was aborted before.
std::shared_ptr<comm::CancelToken> Plane::Impl::begin_build(Generation generation) {
  std::shared_ptr<comm::Communicator> former;  // closes behind the lock
  const std::lock_guard lock(mutex_);
  former = std::exchange(communicator_, nullptr);
  generation_ = generation;
  building_.reset();
  if (!aborted_ || generation > *aborted_) building_ = std::make_shared<comm::CancelToken>();
  return building_;
}

// An abort in the meantime counts.
void Plane::Impl::end_build(std::shared_ptr<comm::Communicator> communicator) {
  const std::lock_guard lock(mutex_);
  if (communicator && building_->cancelled()) communicator->abort();
  communicator_ = std::move(communicator);
  building_.reset();
}

std::shared_ptr<comm::Communicator> Plane::Impl::usable() const {
  const std::lock_guard lock(mutex_);
  if (!communicator_) throw SessionError("Plane::all_reduce() without a plane; call build() first");
  return communicator_;
}

// A copy counts for the step in which it was made.
session::Bucket& Plane::Impl::bucket_of(const PlaneSum& sum) {
  if (sum.bucket >= kMaxBuckets) throw SessionError("Plane::all_reduce(): a step has at most 65,536 buckets");
  if (kept_.size() <= sum.bucket) kept_.resize(sum.bucket + std::size_t{1});
  auto& kept = kept_[sum.bucket];
  const bool is_kept = sum.is_kept && kept.bucket.copied && kept.step == sum.step;
  if (is_kept && kept.bucket.count != sum.count) {
    throw SessionError("Plane::all_reduce(): bucket " + std::to_string(sum.bucket) + " has " +
                       std::to_string(sum.count) + " elements, and had " + std::to_string(kept.bucket.count) +
                       " when its sum was tried first");
  }
  auto& bucket = kept.bucket;
  const auto copy = std::exchange(bucket.copy, {});
  bucket = {.count = sum.count, .element = element_of(sum.type), .copy = copy, .copied = is_kept, .index = sum.bucket};
  kept.step = sum.step;
  if (bucket.element == comm::Element::kFloat32) {
    bucket.data = static_cast<float*>(sum.data);
  } else {
    bucket.narrow = sum.data;
    narrow_.make_room(bucket);
  }
  return bucket;
}

PlaneNorms Plane::Impl::all_reduce(const PlaneSum& sum) {
  require_own_process();
  session::bytes_of("Plane::all_reduce()", sum.count, sizeof(float));
  if (sum.data == nullptr && sum.count != 0) throw SessionError("Plane::all_reduce() with a null pointer");
  const auto communicator = usable();
  auto& bucket = bucket_of(sum);
  if (sum.keeps) inputs_.make_room(bucket);  // also without samples: the next step has some
  session::NarrowGradients::widen(sum.has_input, bucket);
  comm::ReduceOptions options{.want_norms = sum.wants_norms, .element = bucket.element};
  inputs_.prepare({.has_samples = sum.has_input, .keeps = sum.keeps, .scale = sum.scale}, bucket, options);
  comm::ReduceStats stats;
  const Status status = communicator->all_reduce({bucket.data, bucket.count}, options, &stats);
  if (!status) {
    fail("bucket " + std::to_string(sum.bucket) + " on the plane of generation " +
             std::to_string(communicator->generation()),
         status.error());
  }
  session::NarrowGradients::round(bucket);
  return {stats.local_square_sum, stats.reduced_square_sum};
}

void Plane::Impl::abort(Generation generation) noexcept {
  if (is_inherited()) return;
  const std::lock_guard lock(mutex_);
  aborted_ = std::max(aborted_.value_or(generation), generation);
  if (generation_ > generation) return;
  if (building_) building_->cancel();
  if (communicator_) communicator_->abort();
}

Plane::Plane() : impl_(std::make_unique<Impl>()) {}

Plane::~Plane() {
  if (impl_->is_inherited()) static_cast<void>(impl_.release());
}

std::vector<std::byte> Plane::endpoint() const {
  return session::write_endpoint(impl_->endpoint(), kEndpointBytes).value();
}

void Plane::build(const PlaneWorld& world) {
  impl_->build(world);
}

PlaneNorms Plane::all_reduce(const PlaneSum& sum) {
  return impl_->all_reduce(sum);
}

void Plane::abort(std::uint64_t generation) noexcept {
  impl_->abort(generation);
}

}  // namespace elastictrain
