#include "train/peers/model_store.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "train/comm/socket.h"
#include "train/peers/store_server.h"
#include "train/session/process_signals.h"

namespace elastictrain::peers {
namespace {

comm::Deadline in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

Result<comm::Socket> connect_to(const Result<comm::SocketAddress>& address, const comm::CancelToken& cancel,
                                comm::Deadline deadline) {
  if (!address) return address.error();
  comm::Socket socket(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return comm::io_error("socket", errno);
  if (::connect(socket.fd(), address->get(), address->size()) != 0) {
    if (errno != EINPROGRESS) return comm::io_error("connect", errno);
    if (auto status = comm::wait_ready(socket.fd(), POLLOUT, cancel, deadline); !status) return status.error();
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return comm::io_error("connect", error);
  }
  if (address->family() != AF_UNIX) comm::tune_tcp(socket.fd());
  return socket;
}

// Token, then lines: port, host key, name of the Unix socket, addresses.
struct Entry {
  Token token{};
  protocol::Endpoint endpoint;
};

std::optional<Entry> read_entry(std::span<const std::byte> bytes) {
  Entry entry;
  if (bytes.size() < entry.token.size()) return std::nullopt;
  std::memcpy(entry.token.data(), bytes.data(), entry.token.size());
  const auto rest = bytes.subspan(entry.token.size());
  std::istringstream lines(std::string(reinterpret_cast<const char*>(rest.data()), rest.size()));
  std::string port;
  if (!std::getline(lines, port) || !std::getline(lines, entry.endpoint.host_key) ||
      !std::getline(lines, entry.endpoint.unix_name)) {
    return std::nullopt;
  }
  entry.endpoint.port = static_cast<std::uint16_t>(std::strtoul(port.c_str(), nullptr, 10));
  for (std::string address; std::getline(lines, address) && !address.empty() && address[0] != '\0';) {
    entry.endpoint.addresses.push_back(address);
  }
  return entry;
}

Result<comm::Socket> reach(const protocol::Endpoint& endpoint, bool same_host, const comm::CancelToken& cancel,
                           comm::Deadline deadline) {
  if (same_host) return connect_to(comm::SocketAddress::abstract_unix(endpoint.unix_name), cancel, deadline);
  Result<comm::Socket> socket = Error{ErrorCode::kUnavailable, "the worker has no address"};
  for (const auto& address : endpoint.addresses) {
    socket = connect_to(comm::SocketAddress::tcp(address, endpoint.port), cancel, deadline);
    if (socket) break;
  }
  return socket;
}

// Proves to the store that this is a worker of the run, and the other way round.
Result<comm::Channel> introduce(comm::Socket socket, const Token& token, protocol::Encryption level,
                                const comm::CancelToken& cancel, comm::Deadline deadline) {
  const auto hello = comm::encode(store_handshake(level));
  if (auto status = comm::send_all(socket, hello, cancel, deadline); !status) return status.error();
  comm::ChallengeBytes bytes;
  if (auto status = comm::receive_all(socket, bytes, cancel, deadline); !status) return status.error();
  const auto challenge = comm::decode_challenge(bytes);
  const auto proof_of = [&](comm::Side side) {
    return comm::prove(token, side, hello, challenge->nonce, challenge->encryption);
  };
  if (!challenge || !comm::same_mac(challenge->proof, proof_of(comm::Side::kAcceptor))) {
    return Error{ErrorCode::kRefused, "something else answers at the address of the worker's store"};
  }
  if (challenge->encryption != level) {
    return Error{ErrorCode::kInvalid, "network.encryption is \"" + std::string(protocol::name_of(level)) +
                                          "\" here and \"" + std::string(protocol::name_of(challenge->encryption)) +
                                          "\" there; give all workers the same value"};
  }
  if (auto status = comm::send_all(socket, proof_of(comm::Side::kConnector), cancel, deadline); !status) {
    return status.error();
  }
  const auto secrets = comm::record_secrets(token, comm::Side::kConnector, hello, challenge->nonce, level);
  return comm::Channel(std::move(socket), secrets, "from a store to its reader");
}

}  // namespace

Result<std::unique_ptr<ModelStore>> ModelStore::open(const comm::ListenOptions& options,
                                                     protocol::Encryption encryption) {
  std::unique_ptr<ModelStore> store(new ModelStore);
  store->host_key_ = options.host_key;
  store->encryption_ = encryption;
  auto listener = comm::DataListener::open(options);
  if (!listener) return listener.error();
  store->listener_ = std::move(*listener);
  if (::getrandom(store->token_.data(), store->token_.size(), 0) != static_cast<ssize_t>(store->token_.size())) {
    return comm::io_error("getrandom", errno);
  }
  store->thread_ = session::background_thread("et-store", [self = store.get()] {
    StoreServer server(*self->listener_, self->token_, self->encryption_,
                       [self](const std::string& name, std::uint64_t version) { return self->find(name, version); });
    server.run(self->ending_);
  });
  return store;
}

ModelStore::~ModelStore() {
  ending_.cancel();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::byte> ModelStore::entry() const {
  const auto& endpoint = listener_->endpoint();
  std::string text(reinterpret_cast<const char*>(token_.data()), token_.size());
  text += std::to_string(endpoint.port) + '\n' + endpoint.host_key + '\n' + endpoint.unix_name + '\n';
  for (const auto& address : endpoint.addresses) {
    if (text.size() + address.size() + 1 <= kEntryBytes) text += address + '\n';
  }
  std::vector<std::byte> bytes(kEntryBytes);
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), kEntryBytes));
  return bytes;
}

void ModelStore::save(std::string_view name, std::span<const std::byte> data, std::uint64_t version) {
  auto copy = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  const std::lock_guard lock(mutex_);
  auto& versions = copies_[std::string(name)];
  std::erase_if(versions, [&](const Copy& old) { return old.version == version; });
  const auto after = std::find_if(versions.begin(), versions.end(), [&](const Copy& c) { return c.version > version; });
  versions.insert(after, Copy{version, std::move(copy)});
  if (versions.size() > kVersions) versions.pop_front();
}

std::optional<Copy> ModelStore::find(const std::string& name, std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  const auto named = copies_.find(name);
  if (named == copies_.end() || named->second.empty()) return std::nullopt;
  if (version == 0) return named->second.back();
  for (const auto& copy : named->second) {
    if (copy.version == version) return copy;
  }
  return std::nullopt;
}

Result<std::optional<std::uint64_t>> ModelStore::request(std::span<const std::byte> entry, std::string_view name,
                                                         std::uint64_t version, std::span<std::byte> into,
                                                         std::chrono::milliseconds time_limit) const {
  const auto store = read_entry(entry);
  if (!store) return Error{ErrorCode::kInvalid, "the worker has not published a store"};
  const auto deadline = in(time_limit);
  const bool same_host = !host_key_.empty() && store->endpoint.host_key == host_key_;
  auto socket = reach(store->endpoint, same_host, ending_, deadline);
  if (!socket) return socket.error();
  auto channel = introduce(std::move(*socket), store->token, same_host ? protocol::Encryption::kNone : encryption_,
                           ending_, deadline);
  if (!channel) return channel.error();
  Question question{.version = version, .name_bytes = name.size(), .data_bytes = into.size()};
  if (auto status = comm::send_all(*channel, bytes_of(question), ending_, deadline); !status) return status.error();
  if (auto status = comm::send_all(*channel, std::as_bytes(std::span(name)), ending_, deadline); !status) {
    return status.error();
  }
  Answer answer;
  if (auto status = comm::receive_all(*channel, bytes_of(answer), ending_, deadline); !status) return status.error();
  if (answer.found == 0) return std::optional<std::uint64_t>();
  if (answer.data_bytes != into.size()) {
    return Error{ErrorCode::kInvalid, "\"" + std::string(name) + "\" has " + std::to_string(answer.data_bytes) +
                                          " bytes there, but " + std::to_string(into.size()) + " were requested"};
  }
  if (auto status = comm::receive_all(*channel, into, ending_, deadline); !status) return status.error();
  return std::optional<std::uint64_t>(answer.version);
}

}  // namespace elastictrain::peers
