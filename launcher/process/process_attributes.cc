#include "launcher/process/process_attributes.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace elastictrain::launcher {
namespace {

constexpr int kWorstNice = 19;
constexpr int kNiceOfNoLimit = 20;  // RLIMIT_NICE counts downwards from here

int own_nice() {
  return ::getpriority(PRIO_PROCESS, 0);
}

bool may_set_any_nice() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  const bool known = ::syscall(SYS_capget, &header, data) == 0;
  return known && (data[0].effective & (1U << CAP_SYS_NICE)) != 0;
}

}  // namespace

bool may_end_background() {
  if (may_set_any_nice()) return true;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NICE, &limit) != 0) return false;
  return limit.rlim_cur >= static_cast<rlim_t>(kNiceOfNoLimit - own_nice());
}

void put_into_background(pid_t group) {
  ::setpriority(PRIO_PGRP, static_cast<id_t>(group), std::min(kWorstNice, own_nice() + kBackgroundNice));
}

void end_background(pid_t group) {
  ::setpriority(PRIO_PGRP, static_cast<id_t>(group), own_nice());
}

void keep_memory_private() {
  const char* allowed = std::getenv(kCoreFilesVariable);
  if (allowed != nullptr && std::string_view(allowed) == "1") return;
  ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace elastictrain::launcher
