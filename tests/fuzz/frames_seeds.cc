// Writes one input per message for frames_fuzz, made by the real encoder. Usage: fuzz_frames_seeds DIRECTORY
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/wire.h"

namespace {

using namespace elastictrain;

// Every field gets a value of its own kind that is not the default.
template <class T>
void fill(T& value) {
  if constexpr (protocol::wire::kIsId<T>) {
    value.value = 3;
  } else if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(1);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = 0.5;
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = 7;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = "text";
  } else if constexpr (protocol::wire::kIsByteArray<T>) {
    value.fill(9);
  } else if constexpr (protocol::wire::kIsVector<T>) {
    value.resize(2);
    for (auto& element : value) fill(element);
  } else if constexpr (protocol::wire::kIsVariant<T>) {
    std::visit([](auto& alternative) { fill(alternative); }, value);
  } else {
    std::apply([](auto&... field) { (fill(field), ...); }, protocol::fields(value));
  }
}

class Seeds {
 public:
  explicit Seeds(std::string directory) : directory_(std::move(directory)) {}

  template <class Variant, std::size_t... I>
  void write_all(const char* name, char reader, std::index_sequence<I...>) {
    (write<Variant, I>(name, reader), ...);
  }

  bool failed() const { return failed_; }

 private:
  template <class Variant, std::size_t I>
  void write(const char* name, char reader) {
    Variant message;
    fill(message.template emplace<I>());
    std::ofstream file(directory_ + "/" + name + "-" + std::to_string(I), std::ios::binary);
    file << reader << '\x20' << protocol::encode_frame(message);
    file.close();
    failed_ = failed_ || !file;
  }

  std::string directory_;
  bool failed_ = false;
};

template <class Variant>
constexpr auto alternatives() {
  return std::make_index_sequence<std::variant_size_v<Variant>>();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
    return 64;
  }
  Seeds seeds(arguments[1]);
  seeds.write_all<protocol::AgentUp>("agent-up", '\0', alternatives<protocol::AgentUp>());
  seeds.write_all<protocol::AgentDown>("agent-down", '\1', alternatives<protocol::AgentDown>());
  seeds.write_all<protocol::WorkerToAgent>("worker-to-agent", '\2', alternatives<protocol::WorkerToAgent>());
  seeds.write_all<protocol::WorkerDown>("worker-down", '\3', alternatives<protocol::WorkerDown>());
  seeds.write_all<protocol::Bootstrap>("bootstrap", '\4', alternatives<protocol::Bootstrap>());
  if (seeds.failed()) std::fprintf(stderr, "%s: cannot write there\n", arguments[1]);
  return seeds.failed() ? 1 : 0;
}
