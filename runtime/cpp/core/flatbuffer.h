#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

/// A reader of flatbuffers (https://flatbuffers.dev/internals/) that trusts no byte of its input.
///
/// Every offset is checked against the buffer before it is followed. A field that is absent, or
/// that points outside the buffer, reads as its default: 0, an empty string, an empty vector, a
/// table that is not valid(). Callers therefore check what they need, never whether it is safe.
/// Views borrow the buffer. Hosts are little endian, as every ExecuTorch target is.
namespace thimble {

/// A view of a buffer that is at least read within its bounds.
class FlatbufferBytes {
 public:
  FlatbufferBytes() = default;
  FlatbufferBytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool holds(size_t position, uint64_t count) const {
    return position <= size_ && count <= size_ - position;
  }

  /// The scalar at `position`, which the caller has checked with holds().
  template <typename T>
  T load(size_t position) const {
    if constexpr (std::is_same_v<T, bool>) {
      return data_[position] != 0;  // a bool of another byte than 0 and 1 would be undefined
    } else {
      T value;
      std::memcpy(&value, data_ + position, sizeof(T));
      return value;
    }
  }

  /// Follows the unsigned offset stored at `position`; 0 (never a target) when it leads outside.
  size_t follow(size_t position) const {
    if (!holds(position, sizeof(uint32_t))) return 0;
    const size_t offset = load<uint32_t>(position);
    return offset != 0 && holds(position, offset) ? position + offset : 0;
  }

  const uint8_t* at(size_t position) const { return data_ + position; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

/// A vector of numbers, read in place.
template <typename T>
class FlatbufferVector {
  static_assert(std::is_arithmetic_v<T>, "FlatbufferVector holds numbers");

 public:
  FlatbufferVector() = default;
  FlatbufferVector(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Element `index`, which must be below size().
  T operator[](size_t index) const {
    T value;
    std::memcpy(&value, data_ + index * sizeof(T), sizeof(T));
    return value;
  }

  std::vector<T> copy() const {
    std::vector<T> copied(size_);
    if (size_ > 0) std::memcpy(copied.data(), data_, size_ * sizeof(T));
    return copied;
  }

  /// The elements' bytes, little endian, perhaps unaligned.
  const uint8_t* bytes() const { return data_; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

class FlatbufferTables;
class FlatbufferStrings;

/// One table. `field` counts a table's fields in the schema's order, from 0.
class FlatbufferTable {
 public:
  /// A table with no field, not valid().
  FlatbufferTable() = default;

  /// The table at `position` of `bytes`; not valid() when it or its vtable lies outside.
  FlatbufferTable(FlatbufferBytes bytes, size_t position) {
    if (position == 0 || !bytes.holds(position, sizeof(int32_t))) return;
    const int64_t vtable =
        static_cast<int64_t>(position) - static_cast<int64_t>(bytes.load<int32_t>(position));
    if (vtable < 0 || !bytes.holds(static_cast<size_t>(vtable), 2 * sizeof(uint16_t))) return;
    const size_t vtable_size = bytes.load<uint16_t>(static_cast<size_t>(vtable));
    const size_t table_size = bytes.load<uint16_t>(static_cast<size_t>(vtable) + sizeof(uint16_t));
    if (vtable_size < 2 * sizeof(uint16_t)) return;
    if (!bytes.holds(static_cast<size_t>(vtable), vtable_size)) return;
    if (!bytes.holds(position, table_size)) return;
    bytes_ = bytes;
    position_ = position;
    vtable_ = static_cast<size_t>(vtable);
    vtable_size_ = vtable_size;
    table_size_ = table_size;
  }

  bool valid() const { return position_ != 0; }
  bool has(size_t field) const { return field_position(field, 1) != 0; }

  template <typename T>
  T scalar(size_t field, T otherwise = T{}) const {
    static_assert(std::is_arithmetic_v<T>, "a scalar field holds a number");
    const size_t position = field_position(field, sizeof(T));
    return position == 0 ? otherwise : bytes_.load<T>(position);
  }

  std::string_view string(size_t field) const { return string_at(bytes_, target(field)); }

  FlatbufferTable table(size_t field) const { return FlatbufferTable(bytes_, target(field)); }

  template <typename T>
  FlatbufferVector<T> vector(size_t field) const {
    const size_t position = target(field);
    const size_t size = vector_size(bytes_, position, sizeof(T));
    if (size == 0) return {};
    return FlatbufferVector<T>(bytes_.at(position + sizeof(uint32_t)), size);
  }

  inline FlatbufferTables tables(size_t field) const;
  inline FlatbufferStrings strings(size_t field) const;

 private:
  friend class FlatbufferTables;
  friend class FlatbufferStrings;

  static size_t vector_size(FlatbufferBytes bytes, size_t position, size_t element_size) {
    if (position == 0 || !bytes.holds(position, sizeof(uint32_t))) return 0;
    const uint64_t size = bytes.load<uint32_t>(position);
    return bytes.holds(position + sizeof(uint32_t), size * element_size) ? static_cast<size_t>(size)
                                                                         : 0;
  }

  static std::string_view string_at(FlatbufferBytes bytes, size_t position) {
    const size_t size = vector_size(bytes, position, 1);
    if (size == 0) return {};
    return {reinterpret_cast<const char*>(bytes.at(position + sizeof(uint32_t))), size};
  }

  /// Where a field's bytes lie; 0 when it is absent or does not fit the table.
  size_t field_position(size_t field, size_t size) const {
    if (!valid()) return 0;
    const size_t slot = 2 * sizeof(uint16_t) + field * sizeof(uint16_t);
    if (slot + sizeof(uint16_t) > vtable_size_) return 0;
    const size_t offset = bytes_.load<uint16_t>(vtable_ + slot);
    return offset == 0 || offset + size > table_size_ ? 0 : position_ + offset;
  }

  size_t target(size_t field) const {
    const size_t position = field_position(field, sizeof(uint32_t));
    return position == 0 ? 0 : bytes_.follow(position);
  }

  FlatbufferBytes bytes_;
  size_t position_ = 0;
  size_t vtable_ = 0;
  size_t vtable_size_ = 0;
  size_t table_size_ = 0;
};

/// A vector of tables. An element that does not fit the buffer reads as one that is not valid().
class FlatbufferTables {
 public:
  FlatbufferTables() = default;
  size_t size() const { return size_; }

  FlatbufferTable operator[](size_t index) const {
    return FlatbufferTable(bytes_, bytes_.follow(first_ + index * sizeof(uint32_t)));
  }

 private:
  friend class FlatbufferTable;
  FlatbufferTables(FlatbufferBytes bytes, size_t position)
      : bytes_(bytes),
        first_(position + sizeof(uint32_t)),
        size_(FlatbufferTable::vector_size(bytes, position, sizeof(uint32_t))) {}

  FlatbufferBytes bytes_;
  size_t first_ = 0;
  size_t size_ = 0;
};

/// A vector of strings. An element that does not fit the buffer reads as an empty one.
class FlatbufferStrings {
 public:
  FlatbufferStrings() = default;
  size_t size() const { return size_; }

  std::string_view operator[](size_t index) const {
    return FlatbufferTable::string_at(bytes_, bytes_.follow(first_ + index * sizeof(uint32_t)));
  }

 private:
  friend class FlatbufferTable;
  FlatbufferStrings(FlatbufferBytes bytes, size_t position)
      : bytes_(bytes),
        first_(position + sizeof(uint32_t)),
        size_(FlatbufferTable::vector_size(bytes, position, sizeof(uint32_t))) {}

  FlatbufferBytes bytes_;
  size_t first_ = 0;
  size_t size_ = 0;
};

FlatbufferTables FlatbufferTable::tables(size_t field) const {
  return FlatbufferTables(bytes_, target(field));
}

FlatbufferStrings FlatbufferTable::strings(size_t field) const {
  return FlatbufferStrings(bytes_, target(field));
}

/// The root table of `size` bytes at `data`; not valid() when the buffer is damaged or does not
/// carry the four-character `identifier` of its schema.
inline FlatbufferTable flatbuffer_root(const uint8_t* data, size_t size,
                                       std::string_view identifier) {
  constexpr size_t kIdentifierSize = 4;
  const FlatbufferBytes bytes(data, size);
  if (identifier.size() != kIdentifierSize) return {};
  if (!bytes.holds(0, sizeof(uint32_t) + kIdentifierSize)) return {};
  if (std::memcmp(data + sizeof(uint32_t), identifier.data(), kIdentifierSize) != 0) return {};
  return FlatbufferTable(bytes, bytes.follow(0));
}

}  // namespace thimble
