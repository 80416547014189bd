#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "platform/mapped_file.h"

namespace thimble {

/// A Thimble `.pte` in memory. Opening it checks everything that is parsed at load
/// against the file's integrity record (exporter/schemas/integrity.fbs), before ExecuTorch sees a
/// byte; the weights are checked by verify() only.
class PteFile {
 public:
  /// Maps the file at `path` and checks its record and its at_load ranges. The error names the file
  /// and the fault.
  ///
  /// `signer` is the public key with which every byte must have been signed, checked before
  /// anything is read; see read_public_key(). "": none.
  static Result<PteFile> open(const std::string& path, const std::string& signer = "");

  /// Checks the same of a file whose `size` bytes are in memory already; they must outlive it.
  /// `name` is what errors call it.
  static Result<PteFile> open(const uint8_t* data, size_t size, const std::string& name);

  PteFile(PteFile&& other) noexcept { *this = std::move(other); }
  PteFile& operator=(PteFile&& other) noexcept;
  PteFile(const PteFile&) = delete;
  PteFile& operator=(const PteFile&) = delete;

  /// Checks every range, weights included. The error names the damaged one.
  Status verify() const;

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  /// The ExecuTorch program: the file's first program_size() bytes.
  const uint8_t* data() const { return data_; }
  size_t program_size() const { return program_size_; }
  /// Whether it has a blob of that name, such as "thimble.tokenizer".
  bool has(const std::string& blob) const;
  /// A value that identifies the file: the checksum of its record, which holds the checksums of
  /// everything else, and its size.
  uint64_t fingerprint() const { return uint64_t{record_crc32_} << 32 ^ program_size_; }

  /// The public key that open() was given.
  const std::string& signer() const { return signer_; }

  /// Fails if writing to `path` would replace this file.
  Status check_output(const std::string& path) const;

  /// Lets the system drop the pages that are completely in the range. For weights that a delegate
  /// has repacked into its own memory.
  void release(size_t offset, size_t size) const { mapping_.release(offset, size); }

 private:
  struct Range {
    std::string name;
    size_t offset;
    size_t size;
    uint32_t crc32;
    bool at_load;
  };

  PteFile() = default;
  Status map();
  Status check_at_load();
  Status read_record();
  Status missing_record() const;
  Status check(bool at_load_only) const;

  std::string path_;
  std::string signer_;
  platform::MappedFile mapping_;  ///< of nothing if the bytes were in memory
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t program_size_ = 0;
  uint32_t record_crc32_ = 0;
  std::vector<Range> ranges_;
};

}  // namespace thimble
