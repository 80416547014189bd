#include "delegate/session/kv_cache.h"

#include <cstring>

namespace thimble::cpu {

using kernels::CacheType;
using kernels::kCacheFour;
using kernels::kCacheLanes;

const char* cache_type_name(CacheType type) {
  switch (type) {
    case CacheType::kFloat16:
      return "float16";
    case CacheType::kFloat32:
      return "float32";
    case CacheType::kInt8:
      return "int8";
    case CacheType::kInt4:
      return "int4";
    case CacheType::kInt8Int4:
      break;
  }
  return "int8-int4";
}

size_t CacheGeometry::key_bytes(size_t length) const {
  return kernels::key_cache_bytes(type, length, head_dim);
}

size_t CacheGeometry::value_bytes(size_t length) const {
  return kernels::value_cache_bytes(type, length, head_dim);
}

size_t CacheGeometry::values_at() const {
  return kernels::round_up(key_bytes(capacity), kernels::kLineBytes);
}

size_t CacheGeometry::head_bytes() const {
  return values_at() + kernels::round_up(value_bytes(capacity), kernels::kLineBytes);
}

bool CacheGeometry::can_hold(size_t oldest, size_t length) const {
  if (oldest > length || length - oldest > capacity) return false;
  return oldest == 0 || (is_ring() && oldest % kCacheLanes == 0 && oldest + window - 1 <= length);
}

size_t CacheGeometry::saved_bytes(size_t oldest, size_t length) const {
  const size_t count = length - std::min(oldest, length);
  return heads * (key_bytes(count) + value_bytes(count));
}

Result<KvCache> KvCache::allocate(const CacheGeometry& geometry) {
  KvCache cache;
  cache.geometry_ = geometry;
  const size_t bytes = geometry.bytes();
  cache.pages_ = platform::Pages::allocate(bytes, platform::Pages::Kind::kSmall);
  if (cache.pages_.valid()) return cache;
  return Status::error("a KV cache of " + std::to_string(bytes) +
                       " bytes does not fit into memory: export with a smaller --max-context-len");
}

size_t KvCache::position_bytes() const {
  return (key_bytes(kCacheLanes) + value_bytes(kCacheLanes)) / kCacheLanes;
}

void KvCache::set_written(size_t start, size_t count) {
  if (start == 0) oldest_ = 0;
  const size_t end = start + count;
  if (!geometry_.is_ring() || end <= geometry_.capacity) return;
  oldest_ = std::max(oldest_, kernels::round_up(end - geometry_.capacity, kCacheLanes));
}

Result<KvCache> KvCache::copy(size_t length) const {
  Result<KvCache> copy = allocate(geometry_);
  if (!copy.ok()) return copy;
  copy->oldest_ = oldest_;
  for (size_t head = 0; head < geometry_.heads; ++head) {
    each_run(oldest_, length, [&](size_t row, size_t count) {
      std::memcpy(copy->key_row(head, row), key_row(head, row), key_bytes(count));
      std::memcpy(copy->value_row(head, row), value_row(head, row), value_bytes(count));
    });
  }
  return copy;
}

void KvCache::save(size_t length, uint8_t* to) const {
  const size_t used = length % kCacheLanes;
  for (size_t head = 0; head < geometry_.heads; ++head) {
    each_run(oldest_, length, [&](size_t row, size_t count) {
      std::memcpy(to, key_row(head, row), key_bytes(count));
      to += key_bytes(count);
    });
    if (used > 0 && length > oldest_) clear_keys(used, to - key_bytes(kCacheLanes));
    each_run(oldest_, length, [&](size_t row, size_t count) {
      std::memcpy(to, value_row(head, row), value_bytes(count));
      to += value_bytes(count);
    });
    if (used > 0 && length > oldest_) clear_values(used, to - value_bytes(kCacheLanes));
  }
}

void KvCache::restore(size_t oldest, size_t length, const uint8_t* from) {
  oldest_ = oldest;
  for (size_t head = 0; head < geometry_.heads; ++head) {
    each_run(oldest, length, [&](size_t row, size_t count) {
      std::memcpy(key_row(head, row), from, key_bytes(count));
      from += key_bytes(count);
    });
    each_run(oldest, length, [&](size_t row, size_t count) {
      std::memcpy(value_row(head, row), from, value_bytes(count));
      from += value_bytes(count);
    });
  }
}

size_t KvCache::scale_bytes() const { return kernels::cache_scale_bytes(geometry_.type); }

void KvCache::clear_scales(size_t used, uint8_t* block) const {
  if (scale_bytes() == 0) return;
  std::memset(block + used * sizeof(float), 0, scale_bytes() - used * sizeof(float));
}

void KvCache::clear_keys(size_t used, uint8_t* block) const {
  clear_scales(used, block);
  const size_t rows = kernels::divide_up(
      geometry_.head_dim, kernels::cache_key_columns(kernels::key_type(geometry_.type)));
  const size_t row = (key_bytes(kCacheLanes) - scale_bytes()) / rows;
  const size_t kept = used * (row / kCacheLanes);
  for (size_t i = 0; i < rows; ++i) {
    std::memset(block + scale_bytes() + i * row + kept, 0, row - kept);
  }
}

void KvCache::clear_values(size_t used, uint8_t* block) const {
  clear_scales(used, block);
  const bool in_fours = kernels::has_cache_scales(geometry_.type);
  const size_t together = in_fours ? kCacheFour : 1;  // positions whose numbers alternate
  const size_t bytes = value_bytes(kCacheLanes) - scale_bytes();
  const size_t end = kernels::round_up(used, together), row = bytes / kCacheLanes;
  uint8_t* const values = block + scale_bytes();
  std::memset(values + end * row, 0, bytes - end * row);
  if (end == used) return;
  const size_t kept = used % together;
  for (uint8_t* four = values + (end - together) * row; four < values + end * row; four += together)
    std::memset(four + kept, 0, together - kept);
}

}  // namespace thimble::cpu
