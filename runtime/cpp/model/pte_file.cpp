#include "model/pte_file.h"

#include <cstring>
#include <string_view>

#include "core/crc32.h"
#include "core/flatbuffer.h"
#include "platform/output_file.h"
#include "trust/signature_file.h"

namespace thimble {
namespace {

constexpr std::string_view kMagic = "THIMBLE1";
constexpr uint32_t kVersion = 1;

/// The footer after the record, at the very end of the file.
struct Footer {
  uint32_t record_size;
  uint32_t record_crc32;
  char magic[8];
};
static_assert(sizeof(Footer) == 16, "the footer is 16 bytes in the file");

/// Fields of the schema's tables, in its order.
enum IntegrityField { kIntegrityVersion, kIntegrityFileSize, kIntegrityRanges };
enum RangeField { kRangeName, kRangeOffset, kRangeSize, kRangeCrc32, kRangeAtLoad };

/// The size of the program and its segments, from ExecuTorch's own header; 0 if there is no such
/// header. Layout: root offset, "ET12", "eh00", uint32 length, uint64 program_size, uint64
/// segment_base_offset, uint64 segment_data_size.
uint64_t size_in_header(const uint8_t* data, size_t size) {
  constexpr size_t kHeaderEnd = 40;
  if (size < kHeaderEnd || std::memcmp(data + 8, "eh00", 4) != 0) return 0;
  uint64_t program_size, segment_base_offset, segment_data_size;
  std::memcpy(&program_size, data + 16, sizeof(uint64_t));
  std::memcpy(&segment_base_offset, data + 24, sizeof(uint64_t));
  std::memcpy(&segment_data_size, data + 32, sizeof(uint64_t));
  return segment_base_offset == 0 ? program_size : segment_base_offset + segment_data_size;
}

}  // namespace

Result<PteFile> PteFile::open(const std::string& path, const std::string& signer) {
  PteFile file;
  file.path_ = path;
  file.signer_ = signer;
  Status status = file.map();
  if (status.ok() && !signer.empty()) {
    status = check_signature(path, file.data_, file.size_, signer);
  }
  if (status.ok()) status = file.check_at_load();
  if (!status.ok()) return status;
  return file;
}

Result<PteFile> PteFile::open(const uint8_t* data, size_t size, const std::string& name) {
  PteFile file;
  file.path_ = name;
  file.data_ = data;
  file.size_ = size;
  const Status status = file.check_at_load();
  if (!status.ok()) return status;
  return file;
}

PteFile& PteFile::operator=(PteFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(signer_, other.signer_);
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(program_size_, other.program_size_);
  std::swap(record_crc32_, other.record_crc32_);
  std::swap(ranges_, other.ranges_);
  return *this;
}

Status PteFile::map() {
  using Error = platform::MappedFile::Error;
  const std::string name_another = ": name a .pte file that thimble-export wrote";
  // What may be a model's name, or its checkpoint.
  const bool is_program = path_.size() > 4 && path_.compare(path_.size() - 4, 4, ".pte") == 0;
  const std::string or_export =
      name_another + (is_program ? "" : "; thimble-run " + path_ + " exports a model and runs it");
  std::string reason;
  switch (mapping_.open(path_, &reason)) {
    case Error::kNone:
      break;
    case Error::kCannotOpen:
      if (platform::file_kind(path_) == platform::FileKind::kAbsent) {
        return Status::error("there is no file " + path_ + or_export);
      }
      return Status::error("cannot open " + path_ + ": " + reason + name_another);
    case Error::kDirectory:
      return Status::error(path_ + " is a directory" + or_export);
    case Error::kNotAFile:
      return Status::error(path_ + " is not a file" + name_another);
    case Error::kEmpty:
      return Status::error(path_ + " is empty: export it again with thimble-export");
    case Error::kCannotMap:
      return Status::error("cannot map " + path_ + " into memory: " + reason);
  }
  data_ = mapping_.data();
  size_ = mapping_.size();
  return {};
}

Status PteFile::check_at_load() {
  const Status status = read_record();
  return status.ok() ? check(/*at_load_only=*/true) : status;
}

Status PteFile::missing_record() const {
  const uint64_t expected = size_in_header(data_, size_);
  if (expected > size_) {
    return Status::error(path_ + " is truncated: it has " + std::to_string(size_) +
                         " bytes of at least " + std::to_string(expected) +
                         ": copy or export it again");
  }
  return Status::error(path_ +
                       " is not a Thimble program (no integrity record): export it with "
                       "thimble-export");
}

Status PteFile::read_record() {
  Footer footer;
  if (size_ < sizeof(footer)) return missing_record();
  std::memcpy(&footer, data_ + size_ - sizeof(footer), sizeof(footer));
  if (std::string_view(footer.magic, sizeof(footer.magic)) != kMagic) return missing_record();

  const Status damaged = Status::error(path_ +
                                       " is damaged in its integrity record, at its end: copy or "
                                       "export it again");
  if (footer.record_size > size_ - sizeof(footer)) return damaged;
  program_size_ = size_ - sizeof(footer) - footer.record_size;
  const uint8_t* record = data_ + program_size_;
  if (crc32(record, footer.record_size) != footer.record_crc32) return damaged;
  record_crc32_ = footer.record_crc32;
  const FlatbufferTable integrity = flatbuffer_root(record, footer.record_size, "THIN");
  if (!integrity.valid()) return damaged;

  const auto version = integrity.scalar<uint32_t>(kIntegrityVersion);
  if (version != kVersion) {
    return Status::error(path_ + " has an integrity record of version " + std::to_string(version) +
                         ", and this runner reads version " + std::to_string(kVersion) +
                         ": export it again, or build a newer runner");
  }
  const auto file_size = integrity.scalar<uint64_t>(kIntegrityFileSize);
  if (file_size != program_size_) {
    return Status::error(path_ + " holds " + std::to_string(program_size_) +
                         " bytes before its integrity record, but should have " +
                         std::to_string(file_size) + ": copy or export it again");
  }
  const FlatbufferTables ranges = integrity.tables(kIntegrityRanges);
  size_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FlatbufferTable range = ranges[i];
    const auto size = range.scalar<uint64_t>(kRangeSize);
    if (range.scalar<uint64_t>(kRangeOffset) != end || size > program_size_ - end) return damaged;
    ranges_.push_back({std::string(range.string(kRangeName)), end, static_cast<size_t>(size),
                       range.scalar<uint32_t>(kRangeCrc32), range.scalar<bool>(kRangeAtLoad)});
    end += size;
  }
  if (end != program_size_) return damaged;
  return {};
}

Status PteFile::check(bool at_load_only) const {
  for (const Range& range : ranges_) {
    if (at_load_only && !range.at_load) continue;
    if (crc32(data_ + range.offset, range.size) == range.crc32) continue;
    return Status::error(
        path_ + " is damaged in its " + range.name + " (bytes " + std::to_string(range.offset) +
        " to " + std::to_string(range.offset + range.size - 1) + "): copy or export it again");
  }
  return {};
}

bool PteFile::has(const std::string& blob) const {
  for (const Range& range : ranges_) {
    if (range.name == blob) return true;
  }
  return false;
}

Status PteFile::verify() const { return check(/*at_load_only=*/false); }

Status PteFile::check_output(const std::string& path) const {
  const bool in_memory = mapping_.data() == nullptr;
  if (in_memory || !platform::same_file(path, path_)) return {};
  return Status::error(path + " is the model's own file: name another file");
}

}  // namespace thimble
