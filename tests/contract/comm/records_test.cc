// Protected connections, against somebody in the path between the hosts.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/comm/records.h"
#include "tests/contract/comm/world.h"
#include "tests/support/contains.h"
#include "train/comm/channel.h"
#include "train/comm/rendezvous.h"
#include "train/comm/socket.h"

namespace elastictrain::comm::testing::records {
namespace {

using protocol::Encryption;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience{30'000};
constexpr Encryption kLevels[] = {Encryption::kIntegrity, Encryption::kFull};

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST_CASE("both implementations of AES-GCM give the bytes of the specification, and open each other's") {
  // Test case 4 of McGrew and Viega's specification.
  GcmKey key;
  GcmIv iv;
  std::ranges::copy(from_hex("feffe9928665731c6d6a8f9467308308"), key.begin());
  std::ranges::copy(from_hex("cafebabefacedbaddecaf888"), iv.begin());
  const auto content = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
      "ba637b39");
  const auto header = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const auto expected = from_hex(
      "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac97"
      "3d58e091");
  for (auto* make : {make_gcm_of_openssl, make_gcm_of_ipsec}) {
    const auto gcm = make();
    if (!gcm) continue;
    gcm->use_key(key);
    std::vector<std::byte> sealed(content.size());
    std::vector<std::byte> tag(kGcmTagBytes);
    gcm->seal(iv, header, content, sealed.data(), tag.data());
    CHECK(sealed == expected);
    CHECK(tag == from_hex("5bc94fbc3221a5db94fae95ae7121a47"));
  }
  const auto one = make_gcm_of_openssl();
  const auto other = make_gcm();
  one->use_key(key);
  other->use_key(key);
  for (std::size_t size : {0, 1, 15, 16, 17, 255, 256, 4000, 65536}) {
    const auto plain = random_bytes(size, 9);
    std::vector<std::byte> sealed(size + 1);
    std::vector<std::byte> opened(size + 1);
    std::vector<std::byte> tag(kGcmTagBytes);
    one->seal(iv, plain, plain, sealed.data(), tag.data());
    REQUIRE(other->open(iv, plain, std::span(sealed).first(size), opened.data(), tag.data()));
    CHECK(std::equal(plain.begin(), plain.end(), opened.begin()));
    other->seal(iv, plain, plain, sealed.data(), tag.data());
    CHECK(one->open(iv, plain, std::span(sealed).first(size), opened.data(), tag.data()));
  }
}

TEST_CASE("keys are derived as RFC 5869 says") {
  const auto secret = hkdf_extract(from_hex("000102030405060708090a0b0c"), std::vector(22, std::byte{0x0b}));
  CHECK(std::ranges::equal(secret, from_hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")));
  const auto expanded = hkdf_expand(secret, {from_hex("f0f1f2f3f4f5f6f7f8f9")});
  CHECK(std::ranges::equal(expanded, from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")));
}

RecordSecrets secrets_for(Side side, const Handshake& handshake, std::uint8_t token_byte = 7, Nonce nonce = {}) {
  Token token;
  token.fill(token_byte);
  return record_secrets(token, side, encode(handshake), nonce, handshake.encryption);
}

TEST_CASE("the secrets of both ends agree, and depend on all that was said in the handshake") {
  const Handshake base{3, Purpose::kRingLink, 1, 0, {}, Encryption::kFull};
  const auto here = secrets_for(Side::kConnector, base);
  const auto there = secrets_for(Side::kAcceptor, base);
  CHECK(here.sent == there.received);
  CHECK(here.received == there.sent);
  CHECK(here.sent != here.received);
  std::vector<Handshake> others(6, base);
  others[0].generation = 4;
  others[1].purpose = Purpose::kStateTransfer;
  others[2].from_rank = 2;
  others[3].to_rank = 2;
  others[4].nonce[0] = std::byte{1};
  others[5].encryption = Encryption::kIntegrity;
  for (const auto& other : others) CHECK(secrets_for(Side::kConnector, other).sent != here.sent);
  CHECK(secrets_for(Side::kConnector, base, 8).sent != here.sent);
  CHECK(secrets_for(Side::kConnector, base, 7, {std::byte{1}}).sent != here.sent);
}

TEST_CASE("records open in order, over several keys, and no record looks like another one") {
  for (const auto level : kLevels) {
    RecordCipher sender(level, {}, 3);
    RecordCipher receiver(level, {}, 3);
    const auto content = random_bytes(100, 1);
    std::vector<std::vector<std::byte>> seen;
    for (int i = 0; i < 20; ++i) {
      const auto record = sealed(sender, content);
      CHECK(std::find(seen.begin(), seen.end(), record) == seen.end());
      seen.push_back(record);
      std::vector<std::byte> opened(content.size());
      CHECK(receiver.open(record, opened));
      CHECK(opened == content);
      const bool readable = std::search(record.begin(), record.end(), content.begin(), content.end()) != record.end();
      CHECK(readable == (level == Encryption::kIntegrity));
    }
  }
}

TEST_CASE("a key seals as many records as it may, and the next one follows from its secret") {
  const RecordSecret secret{std::byte{5}};
  const auto content = random_bytes(100, 4);
  RecordCipher sender(Encryption::kFull, secret, 3);
  std::vector<std::byte> fourth;
  for (int i = 0; i < 4; ++i) fourth = sealed(sender, content);
  const auto key = record_key(next_secret(secret));
  GcmIv iv = key.iv;
  iv.back() ^= std::byte{3};
  const auto gcm = make_gcm();
  gcm->use_key(key.key);
  std::vector<std::byte> expected(content.size() + kGcmTagBytes);
  gcm->seal(iv, std::span(fourth).first(kRecordHeaderBytes), content, expected.data(),
            expected.data() + content.size());
  CHECK(std::ranges::equal(std::span(fourth).subspan(kRecordHeaderBytes), expected));
}

TEST_CASE("a record does not open with any one bit of it changed") {
  for (const auto level : kLevels) {
    RecordCipher sender(level, {});
    const auto record = sealed(sender, random_bytes(40, 2));
    for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
      auto changed = record;
      changed[bit / 8] ^= std::byte(1 << bit % 8);
      RecordCipher receiver(level, {});
      std::vector<std::byte> opened(40);
      CHECK_FALSE(receiver.open(changed, opened));
    }
  }
}

// What an attacker does to the bytes that pass in one direction. Called for each piece that arrives; what it
// returns goes on.
using Change = std::function<std::vector<std::byte>(std::vector<std::byte>)>;

// In the path between two ranks: passes the handshake on and then applies a change to what the connector sends.
class Middle {
 public:
  Middle(const protocol::Endpoint& target, Change change) : change_(std::move(change)) {
    listener_ = std::move(*DataListener::open({"", {"127.0.0.1"}}));
    near_thread_ = std::thread([this, target] { run(target); });
  }
  ~Middle() {
    ending_.cancel();
    near_thread_.join();
  }
  const protocol::Endpoint& endpoint() const { return listener_->endpoint(); }
  const std::vector<std::byte>& seen() const { return seen_; }

 private:
  void run(const protocol::Endpoint& target) {
    if (!wait_ready(listener_->fd(0), POLLIN, ending_, steady_clock::now() + kPatience)) return;
    const Socket near(::accept4(listener_->fd(0), nullptr, nullptr, SOCK_CLOEXEC));
    const auto address = SocketAddress::tcp(target.addresses[0], target.port);
    const Socket far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(far.fd(), address->get(), address->size()) != 0) return;
    std::size_t handshake = kHandshakeBytes + sizeof(Mac);
    pollfd ends[] = {{near.fd(), POLLIN, 0}, {far.fd(), POLLIN, 0}, {ending_.fd(), POLLIN, 0}};
    while (!ending_.cancelled() && ::poll(ends, 3, 1000) >= 0) {
      if (ends[1].revents != 0 && !pass_on(far, near, 1 << 20, nullptr)) return;
      if (ends[0].revents == 0) continue;
      const std::size_t size = handshake > 0 ? handshake : 1 << 20;
      const std::size_t passed = pass_on(near, far, size, handshake > 0 ? nullptr : &change_);
      if (passed == 0) return;
      handshake -= std::min(handshake, passed);
    }
  }

  // Bytes that arrived; 0: an end is closed.
  std::size_t pass_on(const Socket& from, const Socket& to, std::size_t most, const Change* change) {
    std::vector<std::byte> bytes(most);
    const ssize_t n = ::recv(from.fd(), bytes.data(), bytes.size(), 0);
    if (n <= 0) return 0;
    bytes.resize(static_cast<std::size_t>(n));
    seen_.insert(seen_.end(), bytes.begin(), bytes.end());
    if (change != nullptr) bytes = (*change)(std::move(bytes));
    if (bytes.empty() && change != nullptr) return static_cast<std::size_t>(n);
    return ::send(to.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 ? 0 : static_cast<std::size_t>(n);
  }

  Change change_;
  std::unique_ptr<DataListener> listener_;
  CancelToken ending_;
  std::vector<std::byte> seen_;
  std::thread near_thread_;
};

// Two ranks with one connection through the middle.
struct Pair {
  World world{tcp(2)};
  CancelToken cancel;
  Middle middle;
  Channel connector;
  Channel acceptor;

  Pair(Encryption level, Change change) : middle(world.spec(0).peers[0], std::move(change)) {
    const Token token = world.spec(0).token;
    auto endpoint = middle.endpoint();
    const RendezvousPlan accepting{1, token, 0, level, {}, {{Purpose::kRingLink, 1}}};
    const RendezvousPlan connecting{1, token, 1, level, {{Purpose::kRingLink, 0, endpoint, false}}, {}};
    const auto until = steady_clock::now() + kPatience;
    std::thread other(
        [&] { connector = std::move((*rendezvous(connecting, world.listener(1), cancel, until))[0].channel); });
    acceptor = std::move((*rendezvous(accepting, world.listener(0), cancel, until))[0].channel);
    other.join();
  }

  // What the acceptor accepts of what the connector sends: a beginning of it, and why it ends.
  std::pair<std::vector<std::byte>, Status> pass(std::span<const std::byte> data, std::size_t most = 30'000,
                                                 bool in_place = false) {
    std::thread sending([&] { (void)send_all(connector, data, cancel, steady_clock::now() + kPatience); });
    std::vector<std::byte> accepted;
    Status status;
    const auto until = steady_clock::now() + kPatience;
    std::vector<std::byte> room(most);
    while (status && accepted.size() < data.size()) {
      const auto some = std::span(room).first(std::min(most, data.size() - accepted.size()));
      const auto got = in_place ? acceptor.try_receive_in_place(some) : acceptor.try_receive(some);
      if (!got) status = got.error();
      if (got) accepted.insert(accepted.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(*got));
      if (got && *got == 0) status = wait_ready(acceptor.fd(), POLLIN, cancel, until);
    }
    acceptor = Channel();
    cancel.cancel();
    sending.join();
    return {accepted, status};
  }
};

TEST_CASE("what nobody changes arrives whole, also in pieces of any size") {
  const auto data = random_bytes(3'000'000, 3);
  for (const auto level : {Encryption::kNone, Encryption::kIntegrity, Encryption::kFull}) {
    Pair pair(level, [](std::vector<std::byte> bytes) { return bytes; });
    const auto [accepted, status] = pair.pass(data);
    CHECK(status.ok());
    CHECK(accepted == data);
    for (const std::size_t most : {30'000UL, 2 * kMaxRecordBytes}) {
      Pair again(level, [](std::vector<std::byte> bytes) { return bytes; });
      const auto [in_place, end] = again.pass(data, most, true);
      CHECK(end.ok());
      CHECK(in_place == data);
    }
  }
}

// A change to record number 3: records are cut out of the stream and put together again.
Change change_records(std::function<void(std::vector<std::vector<std::byte>>&)> change) {
  auto held = std::make_shared<std::vector<std::byte>>();
  auto changed = std::make_shared<bool>(false);
  return [=](std::vector<std::byte> bytes) -> std::vector<std::byte> {
    if (*changed) return bytes;
    held->insert(held->end(), bytes.begin(), bytes.end());
    std::vector<std::vector<std::byte>> records;
    for (std::size_t at = 0; records.size() < 6;) {
      const auto rest = std::span(*held).subspan(at);
      if (rest.size() < kRecordHeaderBytes) return {};
      const std::size_t size = record_content_bytes(rest) + kRecordOverheadBytes;
      if (rest.size() < size) return {};
      records.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
      at += size;
    }
    std::size_t used = 0;
    for (const auto& record : records) used += record.size();
    change(records);
    std::vector<std::byte> out;
    for (const auto& record : records) out.insert(out.end(), record.begin(), record.end());
    out.insert(out.end(), held->begin() + static_cast<std::ptrdiff_t>(used), held->end());
    *changed = true;
    return out;
  };
}

TEST_CASE(
    "of records that are changed, repeated, left out, exchanged or cut nothing is accepted, with both ends named") {
  using Records = std::vector<std::vector<std::byte>>;
  const std::pair<const char*, std::function<void(Records&)>> attacks[] = {
      {"one bit", [](Records& records) { records[3][1000] ^= std::byte{4}; }},
      {"the size", [](Records& records) { records[3][0] ^= std::byte{1}; }},
      {"the tag", [](Records& records) { records[3].back() ^= std::byte{1}; }},
      {"repeated", [](Records& records) { records.insert(records.begin() + 3, records[2]); }},
      {"left out", [](Records& records) { records.erase(records.begin() + 3); }},
      {"exchanged", [](Records& records) { std::swap(records[3], records[4]); }},
      // Not its last byte: in one of 256 records the first one of the next has the same value.
      {"cut", [](Records& records) { records[3].erase(records[3].begin() + 1000); }},
      {"a foreign size", [](Records& records) { std::memset(records[3].data(), 0xff, 4); }},
      {"no size", [](Records& records) { std::memset(records[3].data(), 0, 4); }},
  };
  const auto data = random_bytes(6 * kMaxRecordBytes, 4);
  const std::pair<Encryption, bool> cases[] = {
      {Encryption::kIntegrity, false}, {Encryption::kIntegrity, true}, {Encryption::kFull, false}};
  for (const auto& [level, in_place] : cases) {
    for (const auto& [name, attack] : attacks) {
      CAPTURE(name);
      CAPTURE(in_place);
      Pair pair(level, change_records(attack));
      const auto [accepted, status] = pair.pass(data, in_place ? kMaxRecordBytes : 30'000, in_place);
      REQUIRE_FALSE(status.ok());
      CHECK(accepted.size() <= 3 * kMaxRecordBytes);
      CHECK(std::equal(accepted.begin(), accepted.end(), data.begin()));
      CHECK(status.error().code == ErrorCode::kPeerLost);
      CHECK(test::contains(status.error().message, "from rank 1 to rank 0"));
    }
  }
}

TEST_CASE("who listens reads what is in clear, and nothing at the level full") {
  const auto data = random_bytes(200'000, 5);
  for (const auto level : {Encryption::kNone, Encryption::kIntegrity, Encryption::kFull}) {
    Pair pair(level, [](std::vector<std::byte> bytes) { return bytes; });
    const auto [accepted, status] = pair.pass(data);
    REQUIRE(status.ok());
    const auto& seen = pair.middle.seen();
    std::size_t found = 0;
    for (std::size_t at = 0; at + 16 <= data.size(); at += 1000) {
      const auto words = std::span(data).subspan(at, 16);
      if (std::search(seen.begin(), seen.end(), words.begin(), words.end()) != seen.end()) ++found;
    }
    CHECK((found > 0) == (level != Encryption::kFull));
    const Token token = pair.world.spec(0).token;
    const auto secret = std::as_bytes(std::span(token));
    CHECK(std::search(seen.begin(), seen.end(), secret.begin(), secret.end()) == seen.end());
  }
}

TEST_CASE("ranks with different levels refuse each other, and both say both values") {
  World world(tcp(2));
  CancelToken cancel;
  std::string said[2];
  const auto build = [&](std::uint32_t rank, Encryption level) {
    auto spec = world.spec(rank);
    spec.encryption = level;
    spec.deadline = steady_clock::now() + kPatience;
    const auto built = build_cpu_communicator(spec, world.listener(rank), cancel);
    REQUIRE_FALSE(built.ok());
    CHECK(built.error().code == ErrorCode::kInvalid);
    said[rank] = built.error().message;
  };
  std::thread other([&] { build(1, Encryption::kFull); });
  build(0, Encryption::kIntegrity);
  other.join();
  for (const auto& text : said) {
    CHECK(test::contains(text, "\"full\" at rank 1"));
    CHECK(test::contains(text, "\"integrity\" at rank 0"));
  }
}

TEST_CASE("nobody in between lowers the level") {
  World world(tcp(2));
  CancelToken cancel;
  const Token token = world.spec(0).token;
  // The connector's hello says "none" when it arrives, so that the acceptor's answer fits the lower level.
  auto middle = std::move(*DataListener::open({"", {"127.0.0.1"}}));
  RendezvousPlan connecting{1, token, 1, Encryption::kFull, {{Purpose::kRingLink, 0, middle->endpoint(), false}}, {}};
  std::thread connector([&] {
    const auto met = rendezvous(connecting, world.listener(1), cancel, steady_clock::now() + kPatience);
    CHECK_FALSE(met.ok());
    CHECK(met.error().code == ErrorCode::kAborted);
  });
  pollfd waiting{middle->fd(0), POLLIN, 0};
  REQUIRE(::poll(&waiting, 1, kPatience.count()) == 1);
  const Socket near(::accept4(middle->fd(0), nullptr, nullptr, SOCK_CLOEXEC));
  HandshakeBytes hello;
  REQUIRE(::recv(near.fd(), hello.data(), hello.size(), MSG_WAITALL) == static_cast<ssize_t>(hello.size()));
  auto said = *decode_handshake(hello);
  CHECK(said.encryption == Encryption::kFull);
  said.encryption = Encryption::kNone;
  const Nonce nonce = make_nonce();
  const auto answer = encode(
      Challenge{nonce, prove(token, Side::kAcceptor, encode(said), nonce, Encryption::kNone), Encryption::kNone});
  CHECK(::send(near.fd(), answer.data(), answer.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(answer.size()));
  std::byte anything{};
  CHECK(::recv(near.fd(), &anything, 1, 0) == 0);
  cancel.cancel();
  connector.join();
}

}  // namespace
}  // namespace elastictrain::comm::testing::records
