// Purpose: answers the requests for a store's copies. All clients are served at the same time by one thread: one that
// is slow or silent delays no other. Clients that have not authenticated themselves are bounded in number and
// time, and the oldest of them makes room.
//
// Ownership: the store; borrows the listener. Thread: run() has one of its own, on which `find` is called. Failure:
// none; a client that breaks the protocol is disconnected.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/cancel_token.h"
#include "train/comm/channel.h"
#include "train/comm/data_listener.h"
#include "train/peers/store_protocol.h"

namespace elastictrain::peers {

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
