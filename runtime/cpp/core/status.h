#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace thimble {

/// The outcome of an operation that can fail: success, or one sentence that says what is wrong,
/// what is allowed and what to do.
class [[nodiscard]] Status {
 public:
  /// Success.
  Status() = default;

  /// Failure with its sentence, which must not be empty.
  static Status error(std::string message) {
    assert(!message.empty());
    Status status;
    status.message_ = std::move(message);
    return status;
  }

  bool ok() const { return message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const std::string& message() const { return status_.message(); }

  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace thimble
