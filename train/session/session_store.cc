// The peer-to-peer store as programs use it, and other features that reach one worker directly: latencies, and the tree
// of minimum latency over all workers.
#include <limits>

#include "train/comm/spanning_tree.h"
#include "train/session/session_impl.h"

namespace elastictrain {

void Session::Impl::enable_store() {
  require(!started_, "enable_store() after start(); call it before, on all workers");
  stores_ = true;
  open_store();
}

void Session::Impl::open_store() {
  auto store = session::ModelStore::open({.host_key = environment_.host_key, .addresses = environment_.bind_addresses});
  if (!store) throw SessionError("the store cannot be opened: " + store.error().message);
  store_ = std::move(*store);
}

// Runs once in each generation, after the first bucket of its first step.
Status Session::Impl::gather_stores() {
  return in_collective("exchange of the stores' addresses", [&] {
    std::vector<std::byte> all(session::ModelStore::kEntryBytes * seat_.communicator->world_size());
    const auto mine = store_->entry();
    Status status = seat_.communicator->all_gather(mine, all);
    if (status) seat_.stores = std::move(all);
    return status;
  });
}

std::span<const std::byte> Session::Impl::store_of(std::uint32_t rank) const {
  constexpr std::size_t kBytes = session::ModelStore::kEntryBytes;
  if (rank >= seat_.stores.size() / kBytes) return {};
  return std::span(seat_.stores).subspan(rank * kBytes, kBytes);
}

void Session::Impl::save(std::string_view name, const void* data, std::size_t bytes, std::uint64_t version) {
  require(store_ != nullptr, "save() without enable_store()");
  require(name.size() <= session::ModelStore::kMaxNameBytes && version != 0,
          "save(): a name has up to 256 bytes, and versions count from 1");
  store_->save(name, {static_cast<const std::byte*>(data), bytes}, version);
}

StoreReply Session::Impl::request(std::uint32_t rank, std::string_view name, std::uint64_t version, void* data,
                                  std::size_t bytes, std::chrono::milliseconds time_limit) {
  require(store_ != nullptr, "request() without enable_store()");
  if (async_pending_) wait_all_reduce();
  const auto entry = store_of(rank);
  if (entry.empty()) return {.problem = "rank " + std::to_string(rank) + " has not published its store yet"};
  const auto found = store_->request(entry, name, version, {static_cast<std::byte*>(data), bytes}, time_limit);
  if (!found) return {.problem = "rank " + std::to_string(rank) + ": " + found.error().message};
  return {.found = found->has_value(), .version = found->value_or(0)};
}

// A question with a short answer, including the connection for it.
std::vector<double> Session::Impl::peer_latencies_us(std::chrono::milliseconds time_limit) {
  require(store_ != nullptr, "peer_latencies_us() without enable_store()");
  if (async_pending_) wait_all_reduce();
  std::vector<double> latencies(seat_.world_size(), -1);
  latencies[seat_.rank] = 0;
  for (std::uint32_t rank = 0; rank < seat_.world_size(); ++rank) {
    const auto entry = store_of(rank);
    if (rank == seat_.rank || entry.empty()) continue;
    const auto begin = session::Clock::now();
    if (!store_->request(entry, "", 0, {}, time_limit)) continue;
    latencies[rank] = std::chrono::duration<double, std::micro>(session::Clock::now() - begin).count();
  }
  return latencies;
}

std::vector<TreeEdge> Session::Impl::minimum_spanning_tree(std::chrono::milliseconds time_limit) {
  require(step_.has_value(), "minimum_spanning_tree() outside a step; call next_batch() first");
  const std::size_t size = seat_.world_size();
  const auto mine = peer_latencies_us(time_limit);
  std::vector<float>& all = latencies_;
  all.assign(size * size, 0.0F);
  for (std::size_t peer = 0; peer < size; ++peer) {
    // An edge that was not measured adds nothing.
    if (mine[peer] > 0) all[seat_.rank * size + peer] = static_cast<float>(mine[peer]);
  }
  sum(all.data(), all.size());
  std::vector<double> known;
  for (const float latency : all) known.push_back(latency > 0 ? latency : -1);
  std::vector<TreeEdge> edges;
  for (const auto& edge : comm::minimum_spanning_tree(known, size)) edges.push_back({edge.from, edge.to});
  return edges;
}

}  // namespace elastictrain
