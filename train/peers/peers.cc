#include "train/peers/peers.h"

#include <string>

#include "supervisor/protocol/names.h"
#include "train/session/session_impl.h"

namespace elastictrain::peers {

void Peers::enable_store() {
  is_enabled_ = true;
  begin();
}

void Peers::begin() {
  if (!is_enabled_) return;
  store_.open();
}

// What every member of the generation knows decides, so that all of them take part.
Status Peers::after_first_sum() {
  const bool reads_models = assignment_.synchronization == protocol::Synchronization::kPairAveraging;
  return is_enabled_ || reads_models ? store_.join_generation() : Status();
}

void Peers::end() {
  store_.close();
}

}  // namespace elastictrain::peers

namespace elastictrain::session {

std::unique_ptr<Extension> make_extension(const ExtensionHost& host) {
  return std::make_unique<peers::Peers>(host);
}

}  // namespace elastictrain::session

// The program's calls that reach one worker directly, and those for the shape of the data plane.

namespace elastictrain {
namespace {

std::string known_topologies() {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace

peers::Peers& Session::Impl::peers() {
  return static_cast<peers::Peers&>(*worker_->extension);  // make_extension() makes no other
}

void Session::enable_store() {
  impl_->require_before_start("enable_store() after start(); call it before, on all workers");
  impl_->peers().enable_store();
}

void Session::save(std::string_view name, const void* data, std::size_t bytes, std::uint64_t version) {
  auto& store = impl_->peers().store();
  impl_->require(store.is_open(), "save() without enable_store()");
  impl_->require(name.size() <= peers::ModelStore::kMaxNameBytes && version != 0,
                 "save(): a name has up to 256 bytes, and versions count from 1");
  store.save(name, {static_cast<const std::byte*>(data), bytes}, version);
}

StoreReply Session::request(std::uint32_t rank, std::string_view name, std::uint64_t version, void* data,
                            std::size_t bytes, std::chrono::milliseconds time_limit) {
  auto& store = impl_->peers().store();
  impl_->require(store.is_open(), "request() without enable_store()");
  impl_->settle_background();
  return store.request(rank, name, version, {static_cast<std::byte*>(data), bytes}, time_limit);
}

std::vector<double> Session::peer_latencies_us(std::chrono::milliseconds time_limit) {
  auto& store = impl_->peers().store();
  impl_->require(store.is_open(), "peer_latencies_us() without enable_store()");
  impl_->settle_background();
  return store.latencies_us(time_limit);
}

std::vector<TreeEdge> Session::minimum_spanning_tree(std::chrono::milliseconds time_limit) {
  impl_->require_step("minimum_spanning_tree() outside a step; call next_batch() first");
  auto& store = impl_->peers().store();
  impl_->require(store.is_open(), "minimum_spanning_tree() without enable_store()");
  impl_->settle_background();
  const std::size_t size = impl_->view().world_size;
  const auto all = store.measure_latencies(time_limit);
  sum(all.data(), all.size());
  return peers::tree_of_latencies(all, size);
}

void Session::request_topology(std::string_view name) {
  const std::string problem =
      "request_topology(): unknown topology \"" + std::string(name) + "\"; choose " + known_topologies();
  if (!protocol::topology_choice(name)) throw SessionError(problem);
  impl_->ask({.topology = std::string(name)});
}

}  // namespace elastictrain
