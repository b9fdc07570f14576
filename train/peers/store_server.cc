#include "train/peers/store_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <utility>

#include "train/comm/peer_process.h"

namespace elastictrain::peers {
namespace {

constexpr std::size_t kMaxStrangers = 64;
constexpr std::chrono::seconds kAskingTime{2};
constexpr std::chrono::seconds kTakingTime{30};
constexpr int kMaxWaitMs = 200;  // then clients that are out of time go

}  // namespace

StoreServer::StoreServer(comm::DataListener& listener, const Token& token, protocol::Encryption encryption, Find find)
    : listener_(listener), token_(token), encryption_(encryption), find_(std::move(find)) {}

void StoreServer::run(const comm::CancelToken& ending) {
  while (!ending.cancelled()) {
    wait(ending);
    const auto now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < listener_.size(); ++i) accept_from(i, now);
    std::erase_if(clients_, [&](Client& client) { return !advance(client) || now > client.until; });
  }
}

void StoreServer::wait(const comm::CancelToken& ending) {
  waits_.assign(1, {ending.fd(), POLLIN, 0});
  for (std::size_t i = 0; i < listener_.size(); ++i) waits_.push_back({listener_.fd(i), POLLIN, 0});
  for (const Client& client : clients_) {
    waits_.push_back({client.channel.fd(), static_cast<short>(client.is_reading() ? POLLIN : POLLOUT), 0});
  }
  ::poll(waits_.data(), waits_.size(), kMaxWaitMs);
}

void StoreServer::accept_from(std::size_t listener_index, comm::Deadline now) {
  while (true) {
    comm::Socket socket(::accept4(listener_.fd(listener_index), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const bool is_unix = listener_.is_unix(listener_index);
    if (is_unix && !comm::peer_has_own_uid(socket.fd())) continue;
    make_room();
    Client client;
    client.channel = comm::Channel(std::move(socket));
    client.is_unix = is_unix;
    client.until = now + kAskingTime;
    clients_.push_back(std::move(client));
  }
}

void StoreServer::make_room() {
  const auto strange = [](const Client& client) { return client.is_stranger(); };
  if (static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), strange)) < kMaxStrangers) return;
  clients_.erase(std::find_if(clients_.begin(), clients_.end(), strange));
}

bool StoreServer::advance(Client& client) {
  while (true) {
    const Progress progress = client.is_reading() ? read(client) : write(client);
    if (progress == Progress::kWaits) return true;
    if (progress == Progress::kEnds) return false;
    client.moved = 0;
    if (!end_part(client)) return false;
  }
}

StoreServer::Progress StoreServer::read(Client& client) {
  std::span<std::byte> part = client.hello;
  if (client.part == Client::Part::kProof) part = client.proof;
  if (client.part == Client::Part::kQuestion) part = bytes_of(client.question);
  if (client.part == Client::Part::kName) part = std::as_writable_bytes(std::span(client.name));
  while (client.moved < part.size()) {
    const auto moved = client.channel.try_receive(part.subspan(client.moved));
    if (!moved) return Progress::kEnds;
    if (*moved == 0) return Progress::kWaits;
    client.moved += *moved;
  }
  return Progress::kDone;
}

StoreServer::Progress StoreServer::write(Client& client) {
  std::span<const std::byte> part = bytes_of(client.answer);
  if (client.part == Client::Part::kData) part = *client.copy.data;
  while (client.moved < part.size()) {
    const auto moved = client.channel.try_send(part.subspan(client.moved));
    if (!moved) return Progress::kEnds;
    if (*moved == 0) return Progress::kWaits;
    client.moved += *moved;
  }
  return Progress::kDone;
}

// A malformed request gets no answer.
bool StoreServer::end_part(Client& client) {
  switch (client.part) {
    case Client::Part::kHello:
      client.part = Client::Part::kProof;
      return challenge(client);
    case Client::Part::kProof:
      client.part = Client::Part::kQuestion;
      return admit(client);
    case Client::Part::kQuestion:
      client.part = Client::Part::kName;
      if (client.question.name_bytes > kMaxNameBytes) return false;
      client.name.resize(client.question.name_bytes);
      return true;
    case Client::Part::kName:
      client.part = Client::Part::kAnswer;
      client.until = std::chrono::steady_clock::now() + kTakingTime;
      look_up(client);
      return true;
    case Client::Part::kAnswer:
      client.part = Client::Part::kData;
      return client.copy.data != nullptr && client.copy.data->size() == client.question.data_bytes;
    case Client::Part::kData:
      break;
  }
  return false;
}

// A new connection has buffer space for these few bytes.
bool StoreServer::challenge(Client& client) const {
  const auto handshake = comm::decode_handshake(client.hello);
  if (!handshake || handshake->purpose != comm::Purpose::kStore) return false;
  const comm::Nonce nonce = comm::make_nonce();
  const auto level = client.is_unix ? protocol::Encryption::kNone : encryption_;
  const auto bytes = comm::encode(
      comm::Challenge{nonce, comm::prove(token_, comm::Side::kAcceptor, client.hello, nonce, level), level});
  client.expected_proof = comm::prove(token_, comm::Side::kConnector, client.hello, nonce, level);
  client.secrets = comm::record_secrets(token_, comm::Side::kAcceptor, client.hello, nonce, level);
  client.agrees = handshake->encryption == level;
  const auto sent = client.channel.try_send(bytes);
  return sent && *sent == bytes.size();
}

bool StoreServer::admit(Client& client) {
  if (!client.agrees || !comm::same_mac(client.proof, client.expected_proof)) return false;
  client.channel = comm::Channel(std::move(client.channel).take_socket(), client.secrets, "from a reader of the store");
  return true;
}

void StoreServer::look_up(Client& client) const {
  auto copy = find_(client.name, client.question.version);
  if (!copy) return;
  client.copy = std::move(*copy);
  client.answer = {1, client.copy.version, client.copy.data->size()};
}

}  // namespace elastictrain::peers
