// Purpose: named, versioned copies of a program's data that other workers may read at any time, whatever this worker is
// doing (KungFu's peer-to-peer model store, algorithms B2). It is one-sided: the program that saved takes no part in a
// request.
//
// Ownership: the session; the store keeps copies of the newest versions of each name. Thread: save() and request() on
// the training thread; a thread of the store answers requests of other workers. Errors: a peer that is
// gone, does not answer in time or has data of another size is an error of the request, never of the run. A worker
// proves that it holds the random token of the store that it asks, and the store proves it to the worker; only members
// of the run's data plane receive the token.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/comm/data_listener.h"
#include "train/comm/socket.h"
#include "train/peers/store_server.h"

namespace elastictrain::peers {

class ModelStore {
 public:
  static constexpr std::size_t kVersions = 3;  // of each name, the newest
  static constexpr std::size_t kMaxNameBytes = StoreServer::kMaxNameBytes;
  static constexpr std::size_t kEntryBytes = 1024;

  static Result<std::unique_ptr<ModelStore>> open(const comm::ListenOptions& options,
                                                  protocol::Encryption encryption = protocol::Encryption::kNone);
  ~ModelStore();
  // Ends all requests in progress, and answers none anymore. Any thread.
  void end() { ending_.cancel(); }

  // The token (the first bytes) and the address of this store, which other workers need for request().
  std::vector<std::byte> entry() const;

  void save(std::string_view name, std::span<const std::byte> data, std::uint64_t version);

  // Fills `into` with the data that the store of `entry` holds under this name: the given version, or the newest for 0.
  // Returns the version, or nullopt if it is not there (yet).
  Result<std::optional<std::uint64_t>> request(std::span<const std::byte> entry, std::string_view name,
                                               std::uint64_t version, std::span<std::byte> into,
                                               std::chrono::milliseconds time_limit) const;

 private:
  ModelStore() = default;
  std::optional<Copy> find(const std::string& name, std::uint64_t version) const;

  std::string host_key_;
  protocol::Encryption encryption_ = protocol::Encryption::kNone;  // of connections to other hosts
  std::unique_ptr<comm::DataListener> listener_;
  Token token_{};
  comm::CancelToken ending_;
  mutable std::mutex mutex_;
  std::map<std::string, std::deque<Copy>, std::less<>> copies_;  // newest last
  std::thread thread_;
};

}  // namespace elastictrain::peers
