// The words with which an exit is explained.
#include "supervisor/core/pure/message_text.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

const std::vector<std::string> kTraceback = {
    "epoch 3: 40%",
    "Traceback (most recent call last):",
    "  File \"train.py\", line 7, in <module>",
    "    main()",
    "ValueError: the first",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "Traceback (most recent call last):",
    "  File \"train.py\", line 9, in <module>",
    "RuntimeError: the data are bad",
    "[W1126 12:00:00 ProcessGroup.cpp] Warning: destroy_process_group() was not called",
    "Exception ignored in: <function Loader.__del__>",
    "Traceback (most recent call last):",
    "  File \"loader.py\", line 3, in __del__",
    "AttributeError: 'NoneType' object has no attribute 'close'",
};

}  // namespace

TEST_CASE("an exit is explained by the exception of the last traceback, not by what is written after it") {
  CHECK(last_words({WorkerId{1}, 1, 0, kTraceback}) == ": RuntimeError: the data are bad");
}

TEST_CASE("without a traceback the last line that is not empty explains it") {
  CHECK(last_words({WorkerId{1}, 127, 0, {"sh: 1: trian: not found", "  "}}) == ": sh: 1: trian: not found");
  CHECK(last_words({WorkerId{1}, 1, 0, {}}).empty());
}

TEST_CASE("who was ended from outside, or ended well, has said nothing about it") {
  for (const std::int32_t signal : {2, 9, 15}) CHECK(last_words({WorkerId{1}, 0, signal, {"epoch 3: 40%"}}).empty());
  CHECK(last_words({WorkerId{1}, 0, 0, {"epoch 3: 40%"}}).empty());
  CHECK(last_words({WorkerId{1}, 0, 6, {"terminate called"}}) == ": terminate called");
}

TEST_CASE("the kernel's OOM killer is named, with the memory that there was") {
  WorkerExited event{WorkerId{1}, 0, kSignalKill, {}, true, 400ULL << 20, 251ULL << 20};
  CHECK(exit_text(event) ==
        "was killed by signal 9 (SIGKILL) by the kernel's OOM killer: its cgroup has a limit of "
        "400 MiB, and the worker held up to 251 MiB");
  event.memory_limit_bytes = event.peak_bytes = 0;
  CHECK(exit_text(event) ==
        "was killed by signal 9 (SIGKILL) by the kernel's OOM killer: the memory of its host was used up");
  WorkerExited other{WorkerId{1}, 1, 0, {}, true, 400ULL << 20, 0};
  CHECK(exit_text(other) ==
        "exited with status 1, and the kernel's OOM killer ended a process beside it: its cgroup has "
        "a limit of 400 MiB");
}
