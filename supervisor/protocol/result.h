// Purpose: expected failures as values. A Result<T> holds either a T or an Error that says what happened, where, and
// what to do next. Nothing here throws; accessing the wrong alternative is a bug and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace elastictrain {

enum class ErrorCode {
  kInvalid,      // bad input: a config value, a malformed message, a broken file
  kUnavailable,  // a host, a peer or a file is not there
  kNoInput,      // a file that the user named cannot be read
  kTimeout,      // a deadline passed
  kAborted,      // the operation was stopped on request
  kPeerLost,     // the other side of a connection went away
  kRefused,      // the other side answered with a refusal (wrong token, wrong key, wrong version)
  kIo,           // the operating system reported an error
  kDenied,       // a file or directory of another user, which this user may not use
  kMismatch,     // the others do something else, or hold other values, where all must agree
  kInternal,     // a contained bug of elastictrain
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what happened and where; the last sentence says what to do, if that is known
};

[[noreturn]] inline void panic(const char* what) {
  std::fprintf(stderr, "elastictrain: internal error: %s\n", what);
  std::abort();
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : data_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return data_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return ok() ? std::get<0>(data_) : fail(); }
  const T& value() const& { return ok() ? std::get<0>(data_) : const_cast<Result*>(this)->fail(); }
  T&& value() && { return std::move(ok() ? std::get<0>(data_) : fail()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    if (ok()) panic("Result::error() on a value");
    return std::get<1>(data_);
  }

 private:
  [[noreturn]] T& fail() { panic(("Result::value() on an error: " + std::get<1>(data_).message).c_str()); }
  std::variant<T, Error> data_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    if (ok()) panic("Result::error() on a success");
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

using Status = Result<void>;

}  // namespace elastictrain
