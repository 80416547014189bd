#include "model/session_handle.h"

#include <array>

namespace thimble {
namespace {

/// Calls a function of the C interface, whose last arguments take the sentence of its error.
template <typename Function, typename... Arguments>
Status call(Function function, Arguments... arguments) {
  std::array<char, 1024> error{};
  if (function(arguments..., error.data(), error.size()) == 0) return {};
  return Status::error(error[0] != '\0' ? error.data() : "the CPU delegate failed");
}

}  // namespace

Result<std::unique_ptr<SessionHandle>> SessionHandle::open(const LoadOptions& options) {
  thimble_session_options given{};
  given.threads = options.threads;
  given.cache_type = options.cache_type;
  given.huge_pages = options.huge_pages ? 1 : 0;
  int32_t id = 0;
  const Status status = call(thimble_session_open, &given, &id);
  if (!status.ok()) return status;
  return std::unique_ptr<SessionHandle>(new SessionHandle(id));
}

SessionHandle::~SessionHandle() { thimble_session_close(id_); }

int32_t SessionHandle::threads() const { return thimble_session_threads(id_); }

std::string SessionHandle::describe() const { return thimble_session_describe(id_); }

std::vector<std::string> SessionHandle::adapters() const {
  std::vector<std::string> names;
  for (int32_t i = 0; i < thimble_session_adapters(id_); ++i) {
    names.emplace_back(thimble_session_adapter_name(id_, i));
  }
  return names;
}

Status SessionHandle::use_adapter(const std::string& name) {
  return call(thimble_cache_use_adapter, id_, name.c_str());
}

int64_t SessionHandle::original_context() const { return thimble_session_original_context(id_); }

bool SessionHandle::uses_long_table() const {
  return thimble_cache_table(id_) == THIMBLE_TABLE_LONG;
}

Status SessionHandle::use_table(bool is_long) {
  const int32_t table = is_long ? THIMBLE_TABLE_LONG : THIMBLE_TABLE_SHORT;
  return call(thimble_cache_use_table, id_, table);
}

Status SessionHandle::use(int32_t cache) {
  if (cache == current_) return {};
  Status status = call(thimble_cache_use, id_, cache);
  if (status.ok()) current_ = cache;
  return status;
}

Status SessionHandle::ask_for(const std::vector<thimble_segment>& segments,
                              std::vector<float>* logits) {
  return call(thimble_session_segments, id_, segments.data(), segments.size(), logits->data(),
              logits->size());
}

int64_t SessionHandle::length() const { return thimble_cache_length(id_); }

Status SessionHandle::truncate(int64_t length) { return call(thimble_cache_truncate, id_, length); }

Result<int64_t> SessionHandle::rewind(int64_t length) {
  const int64_t kept = thimble_cache_kept_by_truncate(id_, length);
  const Status status = truncate(kept);
  if (!status.ok()) return status;
  return kept;
}

Status SessionHandle::save(std::vector<uint8_t>* data) const {
  const size_t before = data->size(), size = thimble_cache_size(id_);
  data->resize(before + size);
  return call(thimble_cache_save, id_, data->data() + before, size);
}

Status SessionHandle::restore(const uint8_t* data, size_t size) {
  return call(thimble_cache_restore, id_, data, size);
}

Result<int32_t> SessionHandle::fork() {
  int32_t cache = 0;
  const Status status = call(thimble_cache_fork, id_, &cache);
  if (!status.ok()) return status;
  return cache;
}

void SessionHandle::free(int32_t cache) {
  // The errors are those of numbers that no cache has.
  if (cache == current_) (void)use(0).ok();
  (void)call(thimble_cache_free, id_, cache).ok();
}

}  // namespace thimble
