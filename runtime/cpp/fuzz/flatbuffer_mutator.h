#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "fuzz/input.h"

namespace thimble {

/// Where a flatbuffer has numbers and references, found without its schema: what leads forward to
/// something with a table's or a vector's shape is taken for a reference, all else for a number.
class FlatbufferPlaces {
 public:
  struct Place {
    size_t at;
    size_t width;  // bytes
  };

  FlatbufferPlaces(const uint8_t* data, size_t size) : data_(data), size_(size) {
    if (size_ >= 8 && is_table(read<uint32_t>(0))) walk_table(read<uint32_t>(0));
  }

  const std::vector<Place>& numbers() const { return numbers_; }
  /// Of tables and vectors, from where they stand.
  const std::vector<Place>& references() const { return references_; }

 private:
  static constexpr size_t kMostOfAVector = 64;

  template <typename T>
  T read(size_t at) const {
    T value;
    std::memcpy(&value, data_ + at, sizeof(value));
    return value;
  }

  /// Whether a table's head and its list of fields are at a place; tells where the list is.
  bool is_table(size_t at, size_t* fields = nullptr) const {
    if (at % 4 != 0 || at + 4 > size_) return false;
    const int64_t list = static_cast<int64_t>(at) - read<int32_t>(at);
    if (list < 0 || list % 2 != 0 || list + 4 > static_cast<int64_t>(size_)) return false;
    const size_t bytes = read<uint16_t>(list), of_table = read<uint16_t>(list + 2);
    if (bytes < 4 || bytes % 2 != 0 || list + bytes > size_) return false;
    if (of_table < 4 || at + of_table > size_) return false;
    for (size_t i = 4; i < bytes; i += 2) {
      if (read<uint16_t>(list + i) >= of_table) return false;
    }
    if (fields != nullptr) *fields = static_cast<size_t>(list);
    return true;
  }

  void walk_table(size_t at) {
    size_t list = 0;
    if (!is_table(at, &list) || !seen_.insert(at).second) return;
    std::vector<size_t> offsets = {read<uint16_t>(list + 2)};
    for (size_t i = 4; i < read<uint16_t>(list); i += 2) {
      const size_t offset = read<uint16_t>(list + i);
      numbers_.push_back({list + i, 2});  // zero: the field is absent
      if (offset >= 4) offsets.push_back(offset);
    }
    std::sort(offsets.begin(), offsets.end());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      walk_field(at + offsets[i], offsets[i + 1] - offsets[i]);
    }
  }

  void walk_field(size_t at, size_t room) {
    const size_t width = room >= 8 && at % 8 == 0 ? 8 : room >= 4 ? 4 : room >= 2 ? 2 : 1;
    if (room < 4 || at % 4 != 0 || !walk_reference(at)) numbers_.push_back({at, width});
  }

  bool walk_reference(size_t at) {
    const size_t target = at + read<uint32_t>(at);
    if (target < at + 4 || target + 4 > size_) return false;
    if (is_table(target)) {
      walk_table(target);
    } else if (target + 4 + read<uint32_t>(target) <= size_) {
      if (seen_.insert(target).second) walk_vector(target);
    } else {
      return false;
    }
    references_.push_back({at, 4});
    return true;
  }

  void walk_vector(size_t at) {
    numbers_.push_back({at, 4});  // its length
    const size_t count = std::min<size_t>(read<uint32_t>(at), kMostOfAVector);
    for (size_t i = 0; i < count && at + 8 + 4 * i <= size_; ++i) {
      walk_field(at + 4 + 4 * i, 4);
    }
  }

  const uint8_t* data_;
  const size_t size_;
  std::set<size_t> seen_;
  std::vector<Place> numbers_, references_;
};

/// Writes another number, one of another place or one that stands at a limit.
template <typename Random>
void mutate_number(uint8_t* data, const std::vector<FlatbufferPlaces::Place>& places,
                   Random& random) {
  const FlatbufferPlaces::Place place = places[random() % places.size()];
  uint64_t value = 0;
  std::memcpy(&value, data + place.at, place.width);
  switch (random() % 6) {
    case 0:
      value += random() % 2 == 0 ? 1 : -1;
      break;
    case 1:
      value = random() % 18;
      break;
    case 2:
      value = (uint64_t{1} << random() % (8 * place.width)) - random() % 2;
      break;
    case 3:
      value = ~uint64_t{0} - random() % 2;
      break;
    case 4:
      value ^= uint64_t{1} << random() % (8 * place.width);
      break;
    default: {
      const FlatbufferPlaces::Place other = places[random() % places.size()];
      std::memcpy(&value, data + other.at, std::min(place.width, other.width));
    }
  }
  std::memcpy(data + place.at, &value, place.width);
}

}  // namespace thimble

/// Of the target that includes this: a mutation of libFuzzer's in a few cases; else numbers change,
/// and references lead to what another one leads to.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  const thimble::FlatbufferPlaces places(data, size);
  if (places.numbers().empty() || random() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  for (size_t left = 1 + random() % 3; left > 0; --left) {
    const auto& references = places.references();
    if (references.empty() || random() % 4 != 0) {
      thimble::mutate_number(data, places.numbers(), random);
    } else {
      const size_t at = references[random() % references.size()].at;
      const size_t other = references[random() % references.size()].at;
      uint32_t offset;
      std::memcpy(&offset, data + other, sizeof(offset));
      offset += static_cast<uint32_t>(other - at);
      std::memcpy(data + at, &offset, sizeof(offset));
    }
  }
  return size;
}
