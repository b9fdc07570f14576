#include "train/peers/store_access.h"

#include <string>
#include <utility>

#include "train/comm/keyed_hash.h"
#include "train/peers/shapes/spanning_tree.h"
#include "train/session/monitors.h"
#include "train/session/process_signals.h"

namespace elastictrain::peers {

ModelReader::ModelReader(Read read)
    : read_(std::move(read)), thread_(session::background_thread("et-models", [this] { run(); })) {}

ModelReader::~ModelReader() {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnding;
  }
  changed_.notify_one();
  thread_.join();
}

void ModelReader::start(std::span<const std::byte> entry, std::size_t floats) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kIdle) return;
    entry_.assign(entry.begin(), entry.end());
    model_.resize(floats);
    state_ = State::kAsked;
  }
  changed_.notify_one();
}

bool ModelReader::take(std::vector<float>& model) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kArrived) return false;
  std::swap(model, model_);
  state_ = State::kIdle;
  return true;
}

void ModelReader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return state_ == State::kAsked || state_ == State::kEnding; });
    if (state_ == State::kEnding) return;
    lock.unlock();
    const bool arrived = read_(entry_, model_);
    lock.lock();
    if (state_ == State::kAsked) state_ = arrived ? State::kArrived : State::kIdle;
  }
}

namespace {

constexpr std::string_view kModelName = "elastictrain model";
constexpr std::chrono::seconds kReadModel{10};

}  // namespace

void StoreAccess::open() {
  if (auto status = try_open(); !status) throw SessionError("the store cannot be opened: " + status.error().message);
}

Status StoreAccess::try_open() {
  auto store = ModelStore::open({.host_key = environment_.host_key, .addresses = environment_.bind_addresses},
                                environment_.encryption);
  if (!store) return store.error();
  store_ = std::move(*store);
  return {};
}

void StoreAccess::close() {
  if (store_) store_->end();
  reader_.reset();
  store_.reset();
}

void StoreAccess::publish_model(std::span<const float> model) {
  if (store_) store_->save(kModelName, std::as_bytes(model), ++published_);
}

void StoreAccess::read_model(std::uint32_t rank, std::size_t floats) {
  const auto entry = entry_of(rank);
  if (!store_ || entry.empty()) return;
  if (!reader_) {
    reader_ = std::make_unique<ModelReader>([store = store_.get()](auto from, std::span<float> model) {
      const auto found = store->request(from, kModelName, 0, std::as_writable_bytes(model), kReadModel);
      return found && found->has_value();
    });
  }
  reader_->start(entry, floats);
}

Status StoreAccess::join_generation() {
  if (entries_of_ == assignment_.generation) return {};
  if (!store_) (void)try_open();  // without one, the others read nothing here
  return gather_entries();
}

// No token crosses the network: it is combined with bytes that only members of the generation know, and again to have
// it back. They are used for this token alone, since every generation has a token of its own.
void StoreAccess::mask_token(std::span<std::byte> entry, std::uint32_t rank) const {
  constexpr std::string_view kPurpose = "elastictrain entry of a store 1";
  const auto mask = comm::keyed_hash(std::as_bytes(std::span(assignment_.token)),
                                     {std::as_bytes(std::span(kPurpose)), std::as_bytes(std::span(&rank, 1))});
  for (std::size_t i = 0; i < sizeof(Token); ++i) entry[i] ^= mask[i];
}

Status StoreAccess::gather_entries() {
  return gate_.run("exchange of the stores' addresses", [&] {
    std::vector<std::byte> all(ModelStore::kEntryBytes * assignment_.communicator->world_size());
    auto mine = store_ ? store_->entry() : std::vector<std::byte>(ModelStore::kEntryBytes);
    mask_token(mine, assignment_.rank);
    Status status = assignment_.communicator->all_gather(mine, all);
    if (!status) return status;
    for (std::uint32_t rank = 0; rank < assignment_.world_size(); ++rank) {
      mask_token(std::span(all).subspan(rank * ModelStore::kEntryBytes, ModelStore::kEntryBytes), rank);
    }
    entries_ = std::move(all);
    entries_of_ = assignment_.generation;
    return status;
  });
}

std::span<const std::byte> StoreAccess::entry_of(std::uint32_t rank) const {
  constexpr std::size_t kBytes = ModelStore::kEntryBytes;
  if (entries_of_ != assignment_.generation || rank >= entries_.size() / kBytes) return {};
  return std::span(entries_).subspan(rank * kBytes, kBytes);
}

void StoreAccess::save(std::string_view name, std::span<const std::byte> data, std::uint64_t version) {
  store_->save(name, data, version);
}

StoreReply StoreAccess::request(std::uint32_t rank, std::string_view name, std::uint64_t version,
                                std::span<std::byte> into, std::chrono::milliseconds time_limit) const {
  const auto entry = entry_of(rank);
  if (entry.empty()) return {.problem = "rank " + std::to_string(rank) + " has not published its store yet"};
  const auto found = store_->request(entry, name, version, into, time_limit);
  if (!found) return {.problem = "rank " + std::to_string(rank) + ": " + found.error().message};
  return {.found = found->has_value(), .version = found->value_or(0)};
}

// A question with a short answer, including the connection for it.
std::vector<double> StoreAccess::latencies_us(std::chrono::milliseconds time_limit) const {
  std::vector<double> latencies(assignment_.world_size(), -1);
  latencies[assignment_.rank] = 0;
  for (std::uint32_t rank = 0; rank < assignment_.world_size(); ++rank) {
    const auto entry = entry_of(rank);
    if (rank == assignment_.rank || entry.empty()) continue;
    const auto begin = session::Clock::now();
    if (!store_->request(entry, "", 0, {}, time_limit)) continue;
    latencies[rank] = std::chrono::duration<double, std::micro>(session::Clock::now() - begin).count();
  }
  return latencies;
}

std::span<float> StoreAccess::measure_latencies(std::chrono::milliseconds time_limit) {
  const std::size_t size = assignment_.world_size();
  const auto mine = latencies_us(time_limit);
  latencies_.assign(size * size, 0.0F);
  for (std::size_t peer = 0; peer < size; ++peer) {
    // An edge that was not measured adds nothing.
    if (mine[peer] > 0) latencies_[assignment_.rank * size + peer] = static_cast<float>(mine[peer]);
  }
  return latencies_;
}

std::vector<elastictrain::TreeEdge> tree_of_latencies(std::span<const float> latencies, std::size_t size) {
  std::vector<double> known;
  for (const float latency : latencies) known.push_back(latency > 0 ? latency : -1);
  std::vector<elastictrain::TreeEdge> edges;
  for (const auto& edge : minimum_spanning_tree(known, size)) edges.push_back({edge.from, edge.to});
  return edges;
}

}  // namespace elastictrain::peers
