#pragma once

#include <cstdint>
#include <string_view>

#include "core/flatbuffer.h"

namespace thimble {

/// Texts one behind the other, told apart by where each ends; read in place.
class TokenTexts {
 public:
  TokenTexts() = default;
  TokenTexts(FlatbufferVector<uint32_t> ends, FlatbufferVector<uint8_t> bytes)
      : ends_(ends), bytes_(bytes) {}

  size_t size() const { return ends_.size(); }

  /// Text `index`; empty when it is out of range or lies outside.
  std::string_view operator[](size_t index) const {
    if (index >= ends_.size()) return {};
    const uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    const uint32_t end = ends_[index];
    if (begin > end || end > bytes_.size()) return {};
    return {reinterpret_cast<const char*>(bytes_.bytes()) + begin, end - begin};
  }

 private:
  FlatbufferVector<uint32_t> ends_;
  FlatbufferVector<uint8_t> bytes_;
};

/// Where `value` is, or would be, among `count` ascending values `at(index)`.
template <typename At>
size_t lower_bound(size_t count, uint64_t value, const At& at) {
  size_t begin = 0;
  while (count > 0) {
    const size_t half = count / 2;
    if (at(begin + half) < value) {
      begin += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return begin;
}

/// The place of `value` among ascending `values`; their number when it is not there.
inline size_t find_sorted(const FlatbufferVector<uint32_t>& values, uint32_t value) {
  const size_t place =
      lower_bound(values.size(), value, [&values](size_t i) -> uint64_t { return values[i]; });
  return place < values.size() && values[place] == value ? place : values.size();
}

}  // namespace thimble
