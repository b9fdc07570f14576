#include "train/comm/shm_region.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace elastictrain::comm {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeaderBytes = kPage;
// Buffers are offset from powers of two, so that equal offsets of different ranks do not map to one cache set.
constexpr std::size_t kBufferStride = ShmRegion::kChunkBytes + kPage + kLineBytes;
constexpr std::size_t kControlBytes = kPage;
constexpr std::size_t kSlotBytes = (kControlBytes + ShmRegion::kBuffers * kBufferStride + kPage - 1) / kPage * kPage;
constexpr std::size_t kMailboxStride = kPage + ShmRegion::kMailboxSlots * ShmRegion::kMailboxBytes;

static_assert(sizeof(RankControl) <= kControlBytes);

}  // namespace

ShmRegion::ShmRegion(ShmRegion&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), ranks_(std::exchange(other.ranks_, 0)) {}

ShmRegion& ShmRegion::operator=(ShmRegion&& other) noexcept {
  if (this != &other) {
    unmap();
    base_ = std::exchange(other.base_, nullptr);
    ranks_ = std::exchange(other.ranks_, 0);
  }
  return *this;
}

ShmRegion::~ShmRegion() {
  unmap();
}

void ShmRegion::unmap() {
  if (base_ != nullptr) ::munmap(std::exchange(base_, nullptr), bytes_for(ranks_));
}

std::size_t ShmRegion::bytes_for(std::size_t ranks) {
  return kHeaderBytes + ranks * kSlotBytes + ranks * ranks * kMailboxStride;
}

Result<ShmRegion> ShmRegion::create(std::size_t ranks, Socket& memory) {
  Socket fd(::memfd_create("elastictrain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return io_error("memfd_create", errno);
  if (::ftruncate(fd.fd(), static_cast<off_t>(bytes_for(ranks))) != 0) return io_error("size of shared memory", errno);
  if (::fcntl(fd.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return io_error("seal", errno);
  auto region = map(ranks, fd.fd());
  if (region) memory = std::move(fd);
  return region;
}

Result<ShmRegion> ShmRegion::attach(std::size_t ranks, const Socket& memory) {
  struct stat facts {};
  if (::fstat(memory.fd(), &facts) != 0) return io_error("fstat of shared memory", errno);
  const int seals = ::fcntl(memory.fd(), F_GET_SEALS);
  if (static_cast<std::size_t>(facts.st_size) != bytes_for(ranks) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{ErrorCode::kInvalid,
                 "the shared memory of this host has another layout; run the same version on all workers"};
  }
  return map(ranks, memory.fd());
}

Result<ShmRegion> ShmRegion::map(std::size_t ranks, int fd) {
  void* base = ::mmap(nullptr, bytes_for(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return io_error("mmap of shared memory", errno);
  ::madvise(base, bytes_for(ranks), MADV_DONTFORK);  // a child would keep it, and uses none of it
  return ShmRegion(static_cast<std::byte*>(base), ranks);
}

void ShmRegion::prefault() {
  // Affects speed only: an old kernel without this advice faults the pages in later.
  ::madvise(base_, kHeaderBytes + ranks_ * kSlotBytes, MADV_POPULATE_WRITE);
}

std::byte* ShmRegion::slot(std::size_t rank) const {
  return base_ + kHeaderBytes + rank * kSlotBytes;
}

ChunkHeader& ShmRegion::chunk_header(std::size_t rank, std::uint64_t chunk) const {
  return control(rank).headers[chunk % kBuffers];
}

std::byte* ShmRegion::buffer(std::size_t rank, std::uint64_t chunk) const {
  return slot(rank) + kControlBytes + chunk % kBuffers * kBufferStride;
}

std::byte* ShmRegion::mailbox_base(std::size_t from, std::size_t to) const {
  return slot(ranks_) + (from * ranks_ + to) * kMailboxStride;
}

MailboxControl& ShmRegion::mailbox(std::size_t from, std::size_t to) const {
  return *reinterpret_cast<MailboxControl*>(mailbox_base(from, to));
}

ChunkHeader& ShmRegion::mailbox_header(std::size_t from, std::size_t to, std::uint32_t index) const {
  return *reinterpret_cast<ChunkHeader*>(mailbox_base(from, to) + sizeof(MailboxControl) +
                                         index % kMailboxSlots * kLineBytes);
}

std::byte* ShmRegion::mailbox_slot(std::size_t from, std::size_t to, std::uint32_t index) const {
  return mailbox_base(from, to) + kPage + index % kMailboxSlots * kMailboxBytes;
}

Status send_descriptor(const Socket& connection, int fd, std::span<const std::byte> note, const CancelToken& cancel,
                       Deadline deadline) {
  iovec part{const_cast<std::byte*>(note.data()), note.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  for (;;) {
    const ssize_t n = ::sendmsg(connection.fd(), &message, MSG_NOSIGNAL);
    if (n > 0) return send_all(connection, note.subspan(static_cast<std::size_t>(n)), cancel, deadline);
    if (errno != EAGAIN && errno != EINTR) return io_error("passing shared memory", errno);
    if (auto ready = wait_ready(connection.fd(), POLLOUT, cancel, deadline); !ready) return ready;
  }
}

Result<Socket> receive_descriptor(const Socket& connection, std::span<std::byte> note, const CancelToken& cancel,
                                  Deadline deadline) {
  if (auto ready = wait_ready(connection.fd(), POLLIN, cancel, deadline); !ready) return ready.error();
  iovec part{note.data(), note.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(connection.fd(), &message, MSG_CMSG_CLOEXEC);
  if (n <= 0)
    return Error{ErrorCode::kPeerLost, "the first rank of this host closed the connection while passing shared memory"};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Error{ErrorCode::kInvalid, "the first rank of this host sent no shared memory"};
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  Socket received(fd);
  if (auto rest = receive_all(connection, note.subspan(static_cast<std::size_t>(n)), cancel, deadline); !rest) {
    return rest.error();
  }
  return received;
}

}  // namespace elastictrain::comm
