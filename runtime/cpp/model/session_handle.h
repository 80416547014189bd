#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/session/session.h"

namespace thimble {

/// How a model is to run. Types of cache and huge pages are for programs of the CPU delegate.
struct LoadOptions {
  int32_t threads = 0;                         ///< 1 to kMaxThreads; 0: the cores worth using
  int32_t cache_type = THIMBLE_CACHE_DEFAULT;  ///< THIMBLE_CACHE_...
  bool huge_pages = false;                     ///< weights are copied into huge pages
  bool record = false;                         ///< recording starts before the load
  std::string signer;  ///< the public key of PteFile::open(); "": no signature is required
};

inline constexpr int32_t kMaxThreads = 256;

/// The CPU delegate's session behind one program (delegate/session/session.h). It holds numbered
/// key/value caches, 0 the first; one of them is in use.
class SessionHandle {
 public:
  static Result<std::unique_ptr<SessionHandle>> open(const LoadOptions& options);
  /// After the program is gone.
  ~SessionHandle();
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  int32_t id() const { return id_; }
  int32_t threads() const;
  /// Kernels, threads, cache, pages, for people; empty before the program is loaded.
  std::string describe() const;

  /// The names of the program's adapters.
  std::vector<std::string> adapters() const;
  /// Makes calls of the cache in use run with an adapter, "": none. If that changes it, the cache
  /// is empty.
  Status use_adapter(const std::string& name);

  /// The longest text that uses the first of the program's two rotary tables; 0: it has one.
  int64_t original_context() const;
  /// Whether the cache in use has the second.
  bool uses_long_table() const;
  /// Makes the cache in use have the second, or the first. If that changes it, the cache is empty.
  Status use_table(bool is_long);

  /// Makes a cache the one that everything below, and the program, is about.
  Status use(int32_t cache);
  int32_t current() const { return current_; }
  /// Makes the next call one of these segments. `logits` gets the rows that they ask for, and lasts
  /// until the end of the call.
  Status ask_for(const std::vector<thimble_segment>& segments, std::vector<float>* logits);
  int64_t length() const;
  Status truncate(int64_t length);
  /// Removes every position from `length` on, or more if the cache must; returns how many are left.
  Result<int64_t> rewind(int64_t length);
  /// Appends the cache to `data`.
  Status save(std::vector<uint8_t>* data) const;
  Status restore(const uint8_t* data, size_t size);
  /// A copy of the cache in use; its number.
  Result<int32_t> fork();
  /// Frees a cache other than 0; 0 takes its place where it is in use.
  void free(int32_t cache);

 private:
  explicit SessionHandle(int32_t id) : id_(id) {}

  int32_t id_;
  int32_t current_ = 0;
};

}  // namespace thimble
