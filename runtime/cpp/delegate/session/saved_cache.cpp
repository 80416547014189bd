// Session: the current cache as bytes, and back.

#include <algorithm>
#include <cstring>

#include "core/crc32.h"
#include "delegate/session/session_state.h"

namespace thimble::cpu {
namespace {

/// A saved cache: 8 characters, then the version, the checksum of everything after it, the length;
/// in version 4, which is for programs with two rotary tables, which of them, THIMBLE_TABLE_...;
/// from version 3 on, which is for caches with an adapter, the size of its name and the name; the
/// number of programs; for each program, its checksum and number of caches; for each cache, its
/// geometry, and, if it has states, their number and geometry; then the first position that each
/// cache keeps; then the keys and values, then the states. What programs share is stored once.
/// Numbers are uint32.
constexpr char kMagic[] = "thimblKV";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kAdapterVersion = 3;
constexpr uint32_t kTableVersion = 4;
constexpr size_t kVersionAt = kMagicBytes;
constexpr size_t kChecksumAt = kVersionAt + sizeof(uint32_t);
constexpr size_t kLengthAt = kChecksumAt + sizeof(uint32_t);
constexpr size_t kFactsAt = kLengthAt + sizeof(uint32_t);  ///< table, adapter and programs

void append(std::vector<uint8_t>* bytes, size_t number) {
  const auto value = static_cast<uint32_t>(number);
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof(value));
}

uint32_t number_at(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

/// The number of a type of cache; 2 was int8 in another order of bytes.
size_t saved_type(kernels::CacheType type) {
  return type < kernels::CacheType::kInt8 ? static_cast<size_t>(type)
                                          : static_cast<size_t>(type) + 1;
}

/// Whether a saved cache of `size` bytes, kFactsAt at least, was computed with the second table.
bool saved_is_long(const uint8_t* bytes, size_t size) {
  return number_at(bytes + kVersionAt) == kTableVersion && size >= kFactsAt + sizeof(uint32_t) &&
         number_at(bytes + kFactsAt) == THIMBLE_TABLE_LONG;
}

/// The adapter of a saved cache of `size` bytes, kFactsAt at least; "" if it has none.
std::string saved_adapter(const uint8_t* bytes, size_t size) {
  const uint32_t version = number_at(bytes + kVersionAt);
  const size_t size_at = kFactsAt + (version == kTableVersion ? sizeof(uint32_t) : 0);
  const size_t name_at = size_at + sizeof(uint32_t);
  if (version < kAdapterVersion || size < name_at) return "";
  const size_t length = std::min<size_t>(number_at(bytes + size_at), size - name_at);
  return std::string(reinterpret_cast<const char*>(bytes + name_at), length);
}

/// As in "the adapter a" or "no adapter".
std::string describe_adapter(const std::string& name) {
  return name.empty() ? "no adapter" : "the adapter " + name;
}

}  // namespace

std::vector<uint8_t> Session::header(bool is_long) const {
  const uint32_t plain_version = adapter().empty() ? kVersion : kAdapterVersion;
  std::vector<uint8_t> bytes(kMagic, kMagic + kMagicBytes);
  append(&bytes, original() > 0 ? kTableVersion : plain_version);
  append(&bytes, 0);  // the checksum
  append(&bytes, length());
  if (original() > 0) append(&bytes, is_long ? THIMBLE_TABLE_LONG : THIMBLE_TABLE_SHORT);
  if (original() > 0 || !adapter().empty()) {
    append(&bytes, adapter().size());
    bytes.insert(bytes.end(), adapter().begin(), adapter().end());
  }
  append(&bytes, programs_.size());
  for (const auto& [number, program] : programs_) {
    const ProgramCaches& caches = current_->second.programs.at(number);
    append(&bytes, program.checksum);
    append(&bytes, caches.kv.size());
    for (const KvCache* cache : caches.kv) {
      append(&bytes, cache->geometry().heads);
      append(&bytes, cache->geometry().head_dim);
      append(&bytes, cache->geometry().capacity);
      append(&bytes, saved_type(cache->geometry().type));
      append(&bytes, cache->geometry().window);
    }
    if (caches.states.empty()) continue;
    append(&bytes, caches.states.size());
    for (const StateCache* state : caches.states) {
      append(&bytes, state->geometry().rows);
      append(&bytes, state->geometry().width);
      append(&bytes, state->geometry().interval);
    }
  }
  return bytes;
}

size_t Session::saved_bytes() const {
  size_t bytes = header(is_long()).size();
  for (const KvCache* cache : each_current()) {
    bytes += sizeof(uint32_t) + cache->saved_bytes(length());
  }
  for (const StateCache* state : each_state()) bytes += state->geometry().saved_bytes(length());
  return bytes;
}

Status Session::save(void* data, size_t size) const {
  if (size != saved_bytes()) {
    return Status::error("cannot save the cache to " + std::to_string(size) +
                         " bytes: it takes exactly " + std::to_string(saved_bytes()));
  }
  auto* bytes = static_cast<uint8_t*>(data);
  std::vector<uint8_t> start = header(is_long());
  for (const KvCache* cache : each_current()) append(&start, cache->oldest());
  uint8_t* to = std::copy(start.begin(), start.end(), bytes);
  for (const KvCache* cache : each_current()) {
    cache->save(length(), to);
    to += cache->saved_bytes(length());
  }
  for (const StateCache* state : each_state()) {
    state->save(length(), to);
    to += state->geometry().saved_bytes(length());
  }
  const uint32_t checksum = crc32(bytes + kLengthAt, size - kLengthAt);
  std::memcpy(bytes + kChecksumAt, &checksum, sizeof(checksum));
  return {};
}

Status Session::restore(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const Status foreign = Status::error(
      "this is not a saved KV cache of this program: save one with this program first");
  if (size < kFactsAt || std::memcmp(bytes, kMagic, kMagicBytes) != 0) return foreign;
  const uint32_t version = number_at(bytes + kVersionAt);
  if (version < kVersion || version > kTableVersion) {
    return Status::error("the saved KV cache has version " + std::to_string(version) +
                         ", and this runtime reads versions " + std::to_string(kVersion) + " to " +
                         std::to_string(kTableVersion) + ": save it again");
  }
  const bool is_long = saved_is_long(bytes, size);
  const std::vector<uint8_t> expected = header(is_long);
  const std::string saved = saved_adapter(bytes, size);
  if (saved == adapter() && size < expected.size()) return foreign;
  if (number_at(bytes + kChecksumAt) != crc32(bytes + kLengthAt, size - kLengthAt)) {
    return Status::error("the saved KV cache is damaged: its checksum is wrong: save it again");
  }
  if (saved != adapter()) {
    return Status::error("the saved KV cache was computed with " + describe_adapter(saved) +
                         ", and the current cache has " + describe_adapter(adapter()) +
                         ": choose the same adapter first, or begin another session");
  }
  if (std::memcmp(bytes + kFactsAt, expected.data() + kFactsAt, expected.size() - kFactsAt) != 0) {
    return Status::error(
        "the saved KV cache belongs to another program or another type of cache: restore it with "
        "the model and the options that saved it");
  }
  const size_t length = number_at(bytes + kLengthAt);
  const std::vector<KvCache*> caches = each_current();
  const size_t payload_at = expected.size() + caches.size() * sizeof(uint32_t);
  bool fits = size >= payload_at;
  size_t needed = payload_at;
  for (size_t i = 0; fits && i < caches.size(); ++i) {
    const size_t oldest = number_at(bytes + expected.size() + i * sizeof(uint32_t));
    fits = caches[i]->geometry().can_hold(oldest, length);
    needed += caches[i]->geometry().saved_bytes(oldest, length);
  }
  for (const StateCache* state : each_state()) {
    fits = fits && state->geometry().snapshots_at(length) <= state->geometry().snapshots;
    needed += state->geometry().saved_bytes(length);
  }
  if (!fits || size != needed) {
    return Status::error("the saved KV cache is damaged: " + std::to_string(size) +
                         " bytes do not hold its " + std::to_string(length) +
                         " positions: save it again");
  }
  const uint8_t* from = bytes + payload_at;
  for (size_t i = 0; i < caches.size(); ++i) {
    const size_t oldest = number_at(bytes + expected.size() + i * sizeof(uint32_t));
    caches[i]->restore(oldest, length, from);
    from += caches[i]->geometry().saved_bytes(oldest, length);
  }
  for (StateCache* state : each_state()) {
    state->restore(length, from);
    from += state->geometry().saved_bytes(length);
  }
  current_->second.length = length;
  if (original() > 0) {
    current_->second.table = is_long ? THIMBLE_TABLE_LONG : THIMBLE_TABLE_SHORT;
    current_->second.is_long = is_long;
  }
  return {};
}

}  // namespace thimble::cpu
