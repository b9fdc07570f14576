// Purpose: answers of a store to the workers that read it, and the messages between both.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/comm/channel.h"
#include "train/comm/data_listener.h"
#include "train/comm/handshake.h"
#include "train/comm/socket.h"

// Messages between a store and a worker that reads it. The handshake of the data plane comes first, with the
// store's own token as key, so that a store answers members of the run only.

namespace elastictrain::peers {

// After the challenge comes the proof, then this, protected as the level says (comm/record_cipher.h); the name follows.
struct Question {
  std::uint64_t version = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t data_bytes = 0;
};

struct Answer {
  std::uint64_t found = 0;
  std::uint64_t version = 0;
  std::uint64_t data_bytes = 0;  // bytes that follow, if this is the requested size
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// No generation and no ranks: a token is one store's.
inline comm::Handshake store_handshake(protocol::Encryption encryption) {
  return {.purpose = comm::Purpose::kStore, .nonce = comm::make_nonce(), .encryption = encryption};
}

// Answers the requests for a store's copies. All clients are served at the same time by one thread: one that
// is slow or silent delays no other. Clients that have not authenticated themselves are bounded in number and
// time, and the oldest of them makes room.
//
// Ownership: the store; borrows the listener. Thread: run() has one of its own, on which `find` is called. Failure:
// none; a client that breaks the protocol is disconnected.

// One version of a name's data.
struct Copy {
  std::uint64_t version = 0;
  std::shared_ptr<const std::vector<std::byte>> data;
};

class StoreServer {
 public:
  using Find = std::function<std::optional<Copy>(const std::string& name, std::uint64_t version)>;
  static constexpr std::size_t kMaxNameBytes = 256;

  StoreServer(comm::DataListener& listener, const Token& token, protocol::Encryption encryption, Find find);

  // Until it is cancelled.
  void run(const comm::CancelToken& ending);

 private:
  struct Client {
    enum class Part : std::uint8_t { kHello, kProof, kQuestion, kName, kAnswer, kData } part = Part::kHello;
    comm::Channel channel;
    bool is_unix = false;
    comm::Deadline until;
    std::size_t moved = 0;  // bytes of this part
    comm::HandshakeBytes hello{};
    comm::Mac proof{};
    comm::Mac expected_proof{};
    comm::RecordSecrets secrets;
    bool agrees = false;  // about the level of protection
    Question question;
    std::string name;
    Answer answer;
    Copy copy;

    bool is_stranger() const { return part <= Part::kProof; }
    bool is_reading() const { return part <= Part::kName; }
  };
  enum class Progress : std::uint8_t { kDone, kWaits, kEnds };

  void wait(const comm::CancelToken& ending);
  void accept_from(std::size_t listener_index, comm::Deadline now);
  void make_room();
  // False: the client is finished with, or has broken the protocol.
  bool advance(Client& client);
  static Progress read(Client& client);
  static Progress write(Client& client);
  bool end_part(Client& client);
  bool challenge(Client& client) const;
  static bool admit(Client& client);
  void look_up(Client& client) const;

  comm::DataListener& listener_;
  Token token_;
  protocol::Encryption encryption_;
  Find find_;
  std::vector<Client> clients_;  // oldest first
  std::vector<pollfd> waits_;
};

}  // namespace elastictrain::peers
