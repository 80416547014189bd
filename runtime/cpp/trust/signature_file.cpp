#include "trust/signature_file.h"

#include <algorithm>
#include <string_view>

#include "core/flatbuffer.h"
#include "platform/mapped_file.h"
#include "trust/public_key.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kSignatureSize = 64;
constexpr size_t kMostBytes = 1 << 26;  // more is no signature

/// Fields of the schema's tables, in its order.
enum SignedFileField { kFileVersion, kFileSize, kFileRanges };
enum SignedRangeField { kRangeName, kRangeOffset, kRangeSize, kRangeSha256 };

/// A copy, so that what was verified is what is read.
Result<std::string> content_of(const std::string& path, const std::string& signed_file) {
  platform::MappedFile file;
  std::string reason = "it is not a file, or is empty";
  if (file.open(path, &reason) != platform::MappedFile::Error::kNone) {
    return Status::error(signed_file + " has no signature, because " + path + " cannot be read (" +
                         reason + "): get it from who signed the file, or require none");
  }
  return std::string(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kMostBytes));
}

bool equals(const Sha256& digest, FlatbufferVector<uint8_t> stored) {
  return stored.size() == digest.size() && std::equal(digest.begin(), digest.end(), stored.bytes());
}

/// Checks every byte against what was signed.
Status check_ranges(const std::string& path, const uint8_t* data, size_t size,
                    FlatbufferTable signed_file, const Status& damaged) {
  const std::string another = path + " is not the file that was signed: ";
  const std::string advice = ": get it again";
  const auto signed_size = signed_file.scalar<uint64_t>(kFileSize);
  if (signed_size != size) {
    return Status::error(another + "it has " + std::to_string(size) + " bytes, not " +
                         std::to_string(signed_size) + advice);
  }
  const FlatbufferTables ranges = signed_file.tables(kFileRanges);
  size_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FlatbufferTable range = ranges[i];
    const auto count = range.scalar<uint64_t>(kRangeSize);
    if (range.scalar<uint64_t>(kRangeOffset) != end || count == 0 || count > size - end) {
      return damaged;
    }
    const Result<Sha256> digest = sha256(data + end, static_cast<size_t>(count));
    if (!digest.ok()) return digest.status();
    const size_t first = end;
    end += static_cast<size_t>(count);
    if (equals(*digest, range.vector<uint8_t>(kRangeSha256))) continue;
    return Status::error(another + "its bytes " + std::to_string(first) + " to " +
                         std::to_string(end - 1) + ", " + std::string(range.string(kRangeName)) +
                         ", were changed" + advice);
  }
  return end == size ? Status() : damaged;
}

}  // namespace

Status check_signature(const std::string& path, const uint8_t* data, size_t size,
                       const std::string& key) {
  const Status able = check_has_digests();
  if (!able.ok()) return able;
  const Result<PublicKey> public_key = read_public_key(key);
  if (!public_key.ok()) return public_key.status();
  const std::string signature_path = path + ".sig";
  const Result<std::string> content = content_of(signature_path, path);
  if (!content.ok()) return content.status();

  const Status damaged = Status::error(signature_path +
                                       " is not a signature, or is damaged: get it again from who "
                                       "signed " +
                                       path);
  if (content->size() <= kSignatureSize) return damaged;
  const size_t record_size = content->size() - kSignatureSize;
  const std::string_view record = std::string_view(*content).substr(0, record_size);
  const FlatbufferTable signed_file =
      flatbuffer_root(reinterpret_cast<const uint8_t*>(content->data()), record_size, "THSG");
  if (!signed_file.valid()) return damaged;
  if (!is_signed_with(*public_key, record, std::string_view(*content).substr(record_size))) {
    return Status::error(signature_path + " is not a signature of " + name_of_key(key) +
                         ": get both again from who signed " + path);
  }
  const auto version = signed_file.scalar<uint32_t>(kFileVersion);
  if (version != kVersion) {
    return Status::error(signature_path + " has the version " + std::to_string(version) +
                         ", and this runner reads version " + std::to_string(kVersion) +
                         ": build a newer runner, or sign the file again");
  }
  return check_ranges(path, data, size, signed_file, damaged);
}

}  // namespace thimble
