// Purpose: decides which thread of a test goes on, so that a seed gives the same interleaving each time. Of all threads
// one runs at a time. At each operation on a mutex, a condition variable, a thread or a sleep, and at yield(), the seed
// decides whose turn it is. The code under test is the product's own: the functions of pthreads that the standard
// library calls are replaced in this program.
//
// What pthreads allow happens: a notified thread runs late, one that waits wakes without a reason. Time is virtual: it
// advances to the next deadline when nobody can go on. Two threads that touch the same memory without an operation in
// between are ThreadSanitizer's to find.
//
// Thread: run_interleaved() on one at a time. Errors: where no thread can go on, and where one goes on for ever, the
// process aborts, and says of each thread what it waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace elastictrain::test {

// Runs the body as the first thread. It must have joined all others when it returns.
void run_interleaved(std::uint64_t seed, const std::function<void()>& body);

// Another thread may go on here.
void yield();

// The time that was skipped so far because nobody could go on before a deadline.
std::chrono::nanoseconds skipped();

}  // namespace elastictrain::test
