#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace thimble::platform {

/// A whole file, mapped into memory to be read. The system reads its pages as they are used.
class MappedFile {
 public:
  enum class Error { kNone, kCannotOpen, kDirectory, kNotAFile, kEmpty, kCannotMap };

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  /// Maps the file at `path`; called once. `*reason` is what the system says of kCannotOpen and
  /// kCannotMap.
  Error open(const std::string& path, std::string* reason);

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  /// Lets the system drop the pages that are completely in the range; they are read from the file
  /// again if needed. Has no effect before open().
  void release(size_t offset, size_t size) const;

 private:
  void swap(MappedFile& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace thimble::platform
