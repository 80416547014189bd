#include "delegate/session_state.h"

#include <algorithm>
#include <cstring>

#include "core/crc32.h"

namespace thimble::cpu {
namespace {

/// A saved cache: 8 characters, then the version, the checksum of all that follows it, the length,
/// the number of programs; for each, its checksum and number of caches; for each of those, its
/// geometry; then the keys and values. Numbers are uint32.
constexpr char kMagic[] = "thimblKV";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = kMagicBytes;
constexpr size_t kChecksumAt = kVersionAt + sizeof(uint32_t);
constexpr size_t kLengthAt = kChecksumAt + sizeof(uint32_t);
constexpr size_t kProgramsAt = kLengthAt + sizeof(uint32_t);

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

}  // namespace

Session::Session(const thimble_session_options& options)
    : options_(options),
      team_(static_cast<size_t>(options.threads)),
      current_(caches_.emplace(0, Cache{}).first) {}

kernels::CacheType Session::cache_type(kernels::CacheType of_program) const {
  switch (options_.cache_type) {
    case THIMBLE_CACHE_FLOAT16:
      return kernels::CacheType::kFloat16;
    case THIMBLE_CACHE_FLOAT32:
      return kernels::CacheType::kFloat32;
    case THIMBLE_CACHE_INT8:
      return kernels::CacheType::kInt8;
    default:
      return of_program;
  }
}

Result<uint32_t> Session::add_program(uint32_t checksum,
                                      const std::vector<CacheGeometry>& geometries) {
  const uint32_t program = next_program_;
  std::vector<ProgramCaches> fresh(caches_.size());
  for (ProgramCaches& caches : fresh) {
    for (const CacheGeometry& geometry : geometries) {
      Result<KvCache> cache = KvCache::allocate(geometry);
      if (!cache.ok()) return cache.status();
      caches.push_back(std::move(*cache));
    }
  }
  size_t i = 0;
  for (auto& entry : caches_) entry.second.programs[program] = std::move(fresh[i++]);
  checksums_[program] = checksum;
  ++next_program_;
  return program;
}

void Session::remove_program(uint32_t program) {
  for (auto& entry : caches_) entry.second.programs.erase(program);
  checksums_.erase(program);
}

ProgramCaches& Session::caches(uint32_t program) { return current_->second.programs.at(program); }

Status Session::truncate(int64_t length) {
  if (length < 0 || static_cast<uint64_t>(length) > this->length()) {
    return Status::error("cannot truncate the cache to " + std::to_string(length) +
                         " positions: give 0 to the " + std::to_string(this->length()) +
                         " that it holds");
  }
  set_length(static_cast<size_t>(length));
  return {};
}

std::vector<uint8_t> Session::header() const {
  std::vector<uint8_t> bytes(kMagic, kMagic + kMagicBytes);
  append(&bytes, kVersion);
  append(&bytes, 0);  // the checksum
  append(&bytes, length());
  append(&bytes, checksums_.size());
  for (const auto& [program, checksum] : checksums_) {
    const ProgramCaches& caches = current_->second.programs.at(program);
    append(&bytes, checksum);
    append(&bytes, caches.size());
    for (const KvCache& cache : caches) {
      append(&bytes, cache.geometry().heads);
      append(&bytes, cache.geometry().head_dim);
      append(&bytes, cache.geometry().capacity);
      append(&bytes, static_cast<size_t>(cache.geometry().type));
    }
  }
  return bytes;
}

size_t Session::payload_bytes(size_t length) const {
  size_t bytes = 0;
  for (const auto& entry : current_->second.programs) {
    for (const KvCache& cache : entry.second) bytes += cache.saved_bytes(length);
  }
  return bytes;
}

size_t Session::saved_bytes() const { return header().size() + payload_bytes(length()); }

Status Session::save(void* data, size_t size) const {
  if (size != saved_bytes()) {
    return Status::error("cannot save the cache to " + std::to_string(size) +
                         " bytes: it takes exactly " + std::to_string(saved_bytes()));
  }
  auto* bytes = static_cast<uint8_t*>(data);
  const std::vector<uint8_t> start = header();
  uint8_t* to = std::copy(start.begin(), start.end(), bytes);
  for (const auto& entry : current_->second.programs) {
    for (const KvCache& cache : entry.second) {
      cache.save(length(), to);
      to += cache.saved_bytes(length());
    }
  }
  const uint32_t checksum = crc32(bytes + kLengthAt, size - kLengthAt);
  std::memcpy(bytes + kChecksumAt, &checksum, sizeof(checksum));
  return {};
}

Status Session::restore(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const std::vector<uint8_t> expected = header();
  if (size < expected.size() || std::memcmp(bytes, kMagic, kMagicBytes) != 0) {
    return Status::error("this is not a saved KV cache of this program: save one with it first");
  }
  if (number_at(bytes + kVersionAt) != kVersion) {
    return Status::error(
        "the saved KV cache has version " + std::to_string(number_at(bytes + kVersionAt)) +
        ", and this runtime reads version " + std::to_string(kVersion) + ": save it again");
  }
  if (number_at(bytes + kChecksumAt) != crc32(bytes + kLengthAt, size - kLengthAt)) {
    return Status::error("the saved KV cache is damaged: its checksum is wrong: save it again");
  }
  if (std::memcmp(bytes + kProgramsAt, expected.data() + kProgramsAt,
                  expected.size() - kProgramsAt) != 0) {
    return Status::error(
        "the saved KV cache is one of another program or another type of cache: restore it with "
        "the model and the options that saved it");
  }
  const size_t length = number_at(bytes + kLengthAt);
  size_t capacity = SIZE_MAX;
  for (const auto& entry : current_->second.programs) {
    for (const KvCache& cache : entry.second) {
      capacity = std::min(capacity, cache.geometry().capacity);
    }
  }
  if (length > capacity || size - expected.size() != payload_bytes(length)) {
    return Status::error("the saved KV cache is damaged: " + std::to_string(size) +
                         " bytes do not hold its " + std::to_string(length) +
                         " positions: save it again");
  }
  const uint8_t* from = bytes + expected.size();
  for (auto& entry : current_->second.programs) {
    for (KvCache& cache : entry.second) {
      cache.restore(length, from);
      from += cache.saved_bytes(length);
    }
  }
  set_length(length);
  return {};
}

Result<int32_t> Session::fork() {
  Cache copy;
  copy.length = length();
  for (const auto& [program, caches] : current_->second.programs) {
    ProgramCaches& copies = copy.programs[program];
    for (const KvCache& cache : caches) {
      Result<KvCache> one = cache.copy(length());
      if (!one.ok()) return one.status();
      copies.push_back(std::move(*one));
    }
  }
  const int32_t number = next_cache_++;
  caches_[number] = std::move(copy);
  return number;
}

Status Session::use(int32_t cache) {
  const auto found = caches_.find(cache);
  if (found == caches_.end()) {
    return Status::error("there is no cache " + std::to_string(cache) +
                         ": use 0, or what a fork returned and nobody freed");
  }
  current_ = found;
  return {};
}

Status Session::free(int32_t cache) {
  const auto found = caches_.find(cache);
  if (found == caches_.end() || found == current_ || cache == 0) {
    return Status::error("cannot free cache " + std::to_string(cache) +
                         ": give what a fork returned, after another was made current");
  }
  caches_.erase(found);
  return {};
}

}  // namespace thimble::cpu
