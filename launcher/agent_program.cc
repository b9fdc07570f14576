#include "launcher/agent_program.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

namespace elastictrain::launcher {
namespace {

std::string to_hex(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

constexpr std::size_t kIdBytes = 8;

std::string find_note(const char* note, std::size_t bytes) {
  const auto padded = [](std::size_t n) { return (n + 3) & ~std::size_t{3}; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const std::size_t size = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
    if (size > bytes) return {};
    const char* name = note + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
        header.n_descsz >= kIdBytes) {
      return to_hex(reinterpret_cast<const unsigned char*>(name + padded(header.n_namesz)), kIdBytes);
    }
    note += size;
    bytes -= size;
  }
  return {};
}

// The first object is the program itself; a non-zero return ends the walk there.
int read_first_object(dl_phdr_info* info, std::size_t, void* result) {
  auto& id = *static_cast<std::string*>(result);
  for (int i = 0; i < info->dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    id = find_note(reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr), header.p_memsz);
  }
  return 1;
}

std::string hash_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  std::vector<char> block(1 << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    EVP_DigestUpdate(context, block.data(), static_cast<std::size_t>(file.gcount()));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  EVP_DigestFinal_ex(context, digest.data(), nullptr);
  EVP_MD_CTX_free(context);
  return to_hex(digest.data(), kIdBytes);
}

// Reading the linker's note is cheap, so a host can report the build of its binary within the time of an exec.
std::string compute() {
  std::string id;
  dl_iterate_phdr(read_first_object, &id);
  if (id.empty()) id = hash_file("/proc/self/exe");
  return std::string(ELASTICTRAIN_VERSION) + "-" + id;
}

}  // namespace

std::string build_id() {
  static const std::string id = compute();
  return id;
}

std::string self_path() {
  std::array<char, PATH_MAX> path{};
  const auto bytes = ::readlink("/proc/self/exe", path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
}

AgentProgram this_program() {
  return {self_path(), build_id()};
}

}  // namespace elastictrain::launcher
