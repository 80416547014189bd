#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "kernels/shared/cache.h"
#include "platform/pages.h"

namespace thimble::cpu {

/// The geometry of a cache.
struct CacheGeometry {
  size_t heads;  ///< of keys and values
  size_t head_dim;
  size_t capacity;  ///< positions; of a ring those that it keeps, whole tiles of attention
  kernels::CacheType type;
  size_t window = 0;  ///< positions that a query sees of a ring; 0: it is none

  bool operator==(const CacheGeometry& other) const {
    return heads == other.heads && head_dim == other.head_dim && capacity == other.capacity &&
           type == other.type && window == other.window;
  }

  bool is_ring() const { return window > 0; }
  /// The row of a position.
  size_t row(size_t position) const { return is_ring() ? position % capacity : position; }

  /// Sizes of one head's first `length` positions, in complete blocks.
  size_t key_bytes(size_t length) const;
  size_t value_bytes(size_t length) const;
  size_t values_at() const;  ///< in the memory of a head
  size_t head_bytes() const;
  size_t bytes() const { return heads * head_bytes(); }

  /// Whether a cache can hold positions from `oldest` to `length`, with all that the next sees.
  bool can_hold(size_t oldest, size_t length) const;
  /// Of all heads, in whole blocks from `oldest` on.
  size_t saved_bytes(size_t oldest, size_t length) const;
};

/// "float16", "float32", "int8", "int4" or "int8-int4".
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

  /// The first position that is kept, a multiple of 16; above 0 only in a ring whose first rows
  /// were written again.
  size_t oldest() const { return oldest_; }
  /// The smallest length above 0 after which the next position finds its whole window; 0: any.
  size_t least_length() const { return oldest_ == 0 ? 0 : oldest_ + geometry_.window - 1; }
  /// Records that `count` positions from `start` on were written.
  void set_written(size_t start, size_t count);

  /// Returns a new cache with the positions of this one below `length`.
  Result<KvCache> copy(size_t length) const;

  /// The number of bytes that save() writes.
  size_t saved_bytes(size_t length) const { return geometry_.saved_bytes(oldest_, length); }
  /// Writes head after head: the blocks of 16 positions of keys from oldest() on, in the order of
  /// positions, then of values, as they are in memory; zeros in the last ones beyond `length`.
  void save(size_t length, uint8_t* to) const;
  /// Takes what was saved of positions that the geometry can hold.
  void restore(size_t oldest, size_t length, const uint8_t* from);

  /// Bytes of keys and values that a query reads for every position and head.
  size_t position_bytes() const;

 private:
  size_t key_bytes(size_t length) const { return geometry_.key_bytes(length); }
  size_t value_bytes(size_t length) const { return geometry_.value_bytes(length); }
  /// The first row of a block.
  uint8_t* key_row(size_t head, size_t row) const {
    return static_cast<uint8_t*>(keys(head)) + key_bytes(row);
  }
  uint8_t* value_row(size_t head, size_t row) const {
    return static_cast<uint8_t*>(values(head)) + value_bytes(row);
  }
  size_t scale_bytes() const;  ///< of a block
  /// Calls `run(row, count)` for the rows of positions `first` to `length`, each time for rows that
  /// follow one another.
  template <typename Run>
  void each_run(size_t first, size_t length, Run run) const {
    while (first < length) {
      const size_t row = geometry_.row(first);
      const size_t count = std::min(length - first, geometry_.capacity - row);
      run(row, count);
      first += count;
    }
  }
  /// Sets a block to zero except for its first `used` positions.
  void clear_scales(size_t used, uint8_t* block) const;
  void clear_keys(size_t used, uint8_t* block) const;
  void clear_values(size_t used, uint8_t* block) const;

  CacheGeometry geometry_{};
  platform::Pages pages_;
  size_t oldest_ = 0;
};

}  // namespace thimble::cpu
