#include "delegate/session/session.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "delegate/program/program.h"
#include "delegate/session/session_state.h"
#include "delegate/threads/cores.h"
#include "platform/threads.h"

namespace thimble::cpu {
namespace {

platform::Mutex sessions_mutex;

/// The open sessions, guarded by the mutex. Never destroyed, because a session may be closed while
/// the process ends.
std::map<int32_t, std::shared_ptr<Session>>& sessions() {
  static auto* open = new std::map<int32_t, std::shared_ptr<Session>>();
  return *open;
}

int fail(const std::string& message, char* error, size_t error_size) {
  if (error != nullptr && error_size > 0) {
    const size_t count = std::min(message.size(), error_size - 1);
    std::memcpy(error, message.data(), count);
    error[count] = '\0';
  }
  return 1;
}

int finish(const Status& status, char* error, size_t error_size) {
  return status.ok() ? 0 : fail(status.message(), error, error_size);
}

/// Calls `work(session)`, which returns a Status, on an open session.
template <typename Work>
int with_session(int32_t id, char* error, size_t error_size, Work work) {
  const std::shared_ptr<Session> session = find_session(id);
  if (session == nullptr) {
    return fail("there is no session " + std::to_string(id) + ": open one first", error,
                error_size);
  }
  try {
    return finish(work(*session), error, error_size);
  } catch (const std::bad_alloc&) {
    return fail("there is not enough memory for the session's cache: free one first", error,
                error_size);
  }
}

Status check_options(const thimble_session_options& options) {
  constexpr auto kMost = static_cast<int32_t>(kMostThreads);
  if (options.threads < 0 || options.threads > kMost) {
    return Status::error(std::to_string(options.threads) + " threads are not possible: give 1 to " +
                         std::to_string(kMost) + ", or 0 for the default");
  }
  if (options.cache_type < THIMBLE_CACHE_DEFAULT || options.cache_type > THIMBLE_CACHE_INT8_INT4) {
    return Status::error(
        "there is no type of cache " + std::to_string(options.cache_type) +
        ": give 0 (the program's), 1 (float16), 2 (float32), 3 (int8), 4 (int4) or 5 (int8-int4)");
  }
  return {};
}

}  // namespace

std::shared_ptr<Session> find_session(int32_t id) {
  const std::lock_guard lock(sessions_mutex);
  const auto entry = sessions().find(id);
  return entry == sessions().end() ? nullptr : entry->second;
}

}  // namespace thimble::cpu

using thimble::Result;
using thimble::Status;
using namespace thimble::cpu;

int32_t thimble_program_version(void) {
  return static_cast<int32_t>(thimble::cpu::kProgramVersion);
}

int thimble_session_open(const thimble_session_options* options, int32_t* session, char* error,
                         size_t error_size) {
  static int32_t next_id = 1;
  if (options == nullptr || session == nullptr) {
    return fail("a session needs options and a place for its id: give both", error, error_size);
  }
  const Status status = check_options(*options);
  if (!status.ok()) return finish(status, error, error_size);
  thimble_session_options resolved = *options;
  if (resolved.threads == 0 || !thimble::platform::kHasThreads) {
    resolved.threads = static_cast<int32_t>(default_threads());
  }
  try {
    auto opened = std::make_shared<Session>(resolved);
    const std::lock_guard lock(sessions_mutex);
    *session = next_id++;
    sessions()[*session] = std::move(opened);
    return 0;
  } catch (const std::system_error&) {
    return fail(
        "the system does not start " + std::to_string(resolved.threads) + " threads: ask for fewer",
        error, error_size);
  }
}

void thimble_session_close(int32_t session) {
  std::shared_ptr<Session> closed;
  const std::lock_guard lock(sessions_mutex);
  const auto entry = sessions().find(session);
  if (entry == sessions().end()) return;
  closed = std::move(entry->second);
  sessions().erase(entry);
}

int32_t thimble_session_threads(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? 0 : target->options().threads;
}

const char* thimble_session_describe(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? "" : target->description().c_str();
}

int thimble_session_segments(int32_t session, const thimble_segment* segments, size_t count,
                             float* logits, size_t logits_size, char* error, size_t error_size) {
  return with_session(session, error, error_size, [&](Session& target) {
    return target.ask_for(segments, count, logits, logits_size);
  });
}

int64_t thimble_cache_length(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? 0 : static_cast<int64_t>(target->length());
}

int64_t thimble_cache_kept_by_truncate(int32_t session, int64_t length) {
  const std::shared_ptr<Session> target = find_session(session);
  if (target == nullptr || length < 0) return 0;
  return static_cast<int64_t>(target->kept_by_truncate(static_cast<size_t>(length)));
}

int thimble_cache_truncate(int32_t session, int64_t length, char* error, size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.truncate(length); });
}

int32_t thimble_session_adapters(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? 0 : static_cast<int32_t>(target->adapters().size());
}

const char* thimble_session_adapter_name(int32_t session, int32_t index) {
  const std::shared_ptr<Session> target = find_session(session);
  if (target == nullptr || index < 0) return "";
  const auto at = static_cast<size_t>(index);
  return at < target->adapters().size() ? target->adapters()[at].c_str() : "";
}

const char* thimble_cache_adapter(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? "" : target->adapter().c_str();
}

int thimble_cache_use_adapter(int32_t session, const char* name, char* error, size_t error_size) {
  return with_session(session, error, error_size, [&](Session& target) {
    return target.use_adapter(name == nullptr ? "" : name);
  });
}

int64_t thimble_session_original_context(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? 0 : static_cast<int64_t>(target->original());
}

int thimble_cache_use_table(int32_t session, int32_t table, char* error, size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.use_table(table); });
}

int32_t thimble_cache_table(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target != nullptr && target->is_long() ? THIMBLE_TABLE_LONG : THIMBLE_TABLE_SHORT;
}

size_t thimble_cache_size(int32_t session) {
  const std::shared_ptr<Session> target = find_session(session);
  return target == nullptr ? 0 : target->saved_bytes();
}

int thimble_cache_save(int32_t session, void* data, size_t size, char* error, size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.save(data, size); });
}

int thimble_cache_restore(int32_t session, const void* data, size_t size, char* error,
                          size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.restore(data, size); });
}

int thimble_cache_fork(int32_t session, int32_t* cache, char* error, size_t error_size) {
  return with_session(session, error, error_size, [&](Session& target) {
    const Result<int32_t> number = target.fork();
    if (number.ok()) *cache = *number;
    return number.status();
  });
}

int thimble_cache_use(int32_t session, int32_t cache, char* error, size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.use(cache); });
}

int thimble_cache_free(int32_t session, int32_t cache, char* error, size_t error_size) {
  return with_session(session, error, error_size,
                      [&](Session& target) { return target.free(cache); });
}
