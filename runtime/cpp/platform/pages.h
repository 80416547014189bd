#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace thimble::platform {

/// The size of the system's pages, in bytes.
size_t page_size();

/// Anonymous memory directly from the system: zeros, at page boundaries, resident only where it
/// was written.
class Pages {
 public:
  enum class Kind {
    kSmall,  ///< never more resident than was touched
    kHuge,   ///< huge pages if the system has them
  };

  Pages() = default;
  ~Pages();
  Pages(Pages&& other) noexcept { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    swap(other);
    return *this;
  }

  /// Memory of `bytes`; not valid() if the system has no more.
  static Pages allocate(size_t bytes, Kind kind);

  bool valid() const { return data_ != nullptr; }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  /// How many of the bytes lie in huge pages, as far as the system says.
  size_t huge_bytes() const;

 private:
  void swap(Pages& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_size_, other.mapping_size_);
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_size_ = 0;
};

}  // namespace thimble::platform
