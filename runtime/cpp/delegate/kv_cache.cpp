#include "delegate/kv_cache.h"

#include <cstring>

namespace thimble::cpu {

using kernels::CacheType;
using kernels::kCacheLanes;
using kernels::round_up;

const char* cache_type_name(CacheType type) {
  return type == CacheType::kFloat16 ? "float16" : "float32";
}

Result<KvCache> KvCache::allocate(const CacheGeometry& geometry) {
  KvCache cache;
  cache.geometry_ = geometry;
  const size_t bytes = geometry.heads * cache.head_bytes();
  cache.pages_ = Pages::allocate(bytes, Pages::Kind::kSmall);
  if (cache.pages_.valid()) return cache;
  return Status::error("a KV cache of " + std::to_string(bytes) +
                       " bytes does not fit into memory: export with a smaller --max-context-len");
}

size_t KvCache::element_bytes() const {
  return geometry_.type == CacheType::kFloat16 ? sizeof(uint16_t) : sizeof(float);
}

size_t KvCache::key_bytes() const {
  const size_t bytes =
      kernels::key_cache_bytes(geometry_.type, geometry_.capacity, geometry_.head_dim);
  return round_up(bytes, kernels::kLineBytes);
}

size_t KvCache::head_bytes() const {
  const size_t bytes =
      kernels::value_cache_bytes(geometry_.type, geometry_.capacity, geometry_.head_dim);
  return key_bytes() + round_up(bytes, kernels::kLineBytes);
}

size_t KvCache::position_bytes() const { return 2 * geometry_.head_dim * element_bytes(); }

Result<KvCache> KvCache::copy(size_t length) const {
  Result<KvCache> copy = allocate(geometry_);
  if (!copy.ok()) return copy;
  const size_t dim = geometry_.head_dim;
  const size_t keys_used = kernels::key_cache_bytes(geometry_.type, length, dim);
  const size_t values_used = kernels::value_cache_bytes(geometry_.type, length, dim);
  for (size_t head = 0; head < geometry_.heads; ++head) {
    std::memcpy(copy->keys(head), keys(head), keys_used);
    std::memcpy(copy->values(head), values(head), values_used);
  }
  return copy;
}

size_t KvCache::saved_bytes(size_t length) const {
  return geometry_.heads * length * position_bytes();
}

void KvCache::save(size_t length, uint8_t* to) const {
  const size_t dim = geometry_.head_dim, element = element_bytes();
  for (size_t head = 0; head < geometry_.heads; ++head) {
    const auto* key = static_cast<const uint8_t*>(keys(head));
    for (size_t position = 0; position < length; ++position) {
      const size_t first = position / kCacheLanes * kCacheLanes * dim + position % kCacheLanes;
      for (size_t d = 0; d < dim; ++d, to += element) {
        std::memcpy(to, key + (first + d * kCacheLanes) * element, element);
      }
    }
    const auto* value = static_cast<const uint8_t*>(values(head));
    for (size_t position = 0; position < length; ++position, to += dim * element) {
      std::memcpy(to, value + position * round_up(dim, kCacheLanes) * element, dim * element);
    }
  }
}

void KvCache::restore(size_t length, const uint8_t* from) {
  const size_t dim = geometry_.head_dim, element = element_bytes();
  for (size_t head = 0; head < geometry_.heads; ++head) {
    auto* key = static_cast<uint8_t*>(keys(head));
    for (size_t position = 0; position < length; ++position) {
      const size_t first = position / kCacheLanes * kCacheLanes * dim + position % kCacheLanes;
      for (size_t d = 0; d < dim; ++d, from += element) {
        std::memcpy(key + (first + d * kCacheLanes) * element, from, element);
      }
    }
    auto* value = static_cast<uint8_t*>(values(head));
    for (size_t position = 0; position < length; ++position, from += dim * element) {
      std::memcpy(value + position * round_up(dim, kCacheLanes) * element, from, dim * element);
    }
  }
}

}  // namespace thimble::cpu
