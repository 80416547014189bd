#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "delegate/memory/pages.h"
#include "kernels/shared/cache.h"

namespace thimble::cpu {

/// The geometry of a cache.
struct CacheGeometry {
  size_t heads;  ///< of keys and values
  size_t head_dim;
  size_t capacity;  ///< positions
  kernels::CacheType type;

  bool operator==(const CacheGeometry& other) const {
    return heads == other.heads && head_dim == other.head_dim && capacity == other.capacity &&
           type == other.type;
  }

  /// Sizes of one head's first `length` positions, in complete blocks.
  size_t key_bytes(size_t length) const;
  size_t value_bytes(size_t length) const;
  size_t values_at() const;  ///< in the memory of a head
  size_t head_bytes() const;
  size_t bytes() const { return heads * head_bytes(); }
};

/// "float16", "float32" or "int8".
const char* cache_type_name(kernels::CacheType type);

/// The keys and values of one attention operator, in the layout of kernels/shared/cache.h. Only
/// what was written is resident in memory.
class KvCache {
 public:
  static Result<KvCache> allocate(const CacheGeometry& geometry);

  const CacheGeometry& geometry() const { return geometry_; }
  void* keys(size_t head) const { return pages_.data() + head * geometry_.head_bytes(); }
  void* values(size_t head) const {
    return pages_.data() + head * geometry_.head_bytes() + geometry_.values_at();
  }

  /// Returns a new cache with the first `length` positions of this one.
  Result<KvCache> copy(size_t length) const;

  /// The number of bytes that save() writes and restore() reads.
  size_t saved_bytes(size_t length) const;
  /// Writes head after head: the blocks of 16 positions of keys, then of values, as they are in
  /// memory; zeros in the last ones beyond `length`.
  void save(size_t length, uint8_t* to) const;
  void restore(size_t length, const uint8_t* from);

  /// Bytes of keys and values that a query reads for every position and head.
  size_t position_bytes() const;

 private:
  size_t key_bytes(size_t length) const { return geometry_.key_bytes(length); }
  size_t value_bytes(size_t length) const { return geometry_.value_bytes(length); }
  size_t scale_bytes() const;  ///< of a block
  /// Sets a block to zero except for its first `used` positions.
  void clear_keys(size_t used, uint8_t* block) const;
  void clear_values(size_t used, uint8_t* block) const;

  CacheGeometry geometry_{};
  Pages pages_;
};

}  // namespace thimble::cpu
