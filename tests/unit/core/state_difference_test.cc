#include "supervisor/core/pure/message_text.h"

#include <doctest/doctest.h>

using elastictrain::core::first_difference;

TEST_CASE("the first item that differs is named, as it is here and elsewhere") {
  CHECK(first_difference("a F32[2]\nb F32[40,3]\nc F32[1]\n", "a F32[2]\nb F32[32,3]\nc F32[2]\n") ==
        "its item 2 is 'b F32[40,3]', elsewhere it is 'b F32[32,3]'");
}

TEST_CASE("an item that only one of them has is named") {
  CHECK(first_difference("a, 8 bytes\n", "a, 8 bytes\nb, 4 bytes\n") ==
        "its item 2 is not 'b, 4 bytes', as it is elsewhere");
  CHECK(first_difference("a, 8 bytes\nb, 4 bytes\n", "a, 8 bytes\n") ==
        "its item 2 is 'b, 4 bytes', which it is nowhere else");
}

TEST_CASE("texts that were cut before the difference say so") {
  CHECK(first_difference("a, 8 bytes\n", "a, 8 bytes\n") == "the difference is behind the items that a worker names");
  CHECK(first_difference("", "") == "the difference is behind the items that a worker names");
}
