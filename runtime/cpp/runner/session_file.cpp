#include "runner/session_file.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "core/crc32.h"
#include "runner/output_file.h"

namespace thimble {
namespace {

constexpr std::string_view kMagic = "THIMSESS";
constexpr uint32_t kVersion = 1;

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

uint32_t crc32_of(std::string_view bytes) {
  return crc32(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

uint32_t header_crc32(const SessionHeader& header) {
  return crc32(reinterpret_cast<const uint8_t*>(&header), offsetof(SessionHeader, header_crc32));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Bytes of the file from where it stands to its end.
uint64_t bytes_left(std::FILE* file) {
  const long at = std::ftell(file);
  std::fseek(file, 0, SEEK_END);
  const long end = std::ftell(file);
  std::fseek(file, at, SEEK_SET);
  return at >= 0 && end >= at ? static_cast<uint64_t>(end - at) : 0;
}

template <typename T>
bool read_all(std::FILE* file, std::vector<T>* values, size_t count) {
  values->resize(count);
  return count == 0 || std::fread(values->data(), sizeof(T), count, file) == count;
}

}  // namespace

Status check_session(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(path, unknown);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return Status::error(path + " is no regular file, and cannot hold a session: name another file");
}

Status write_session(const std::string& path, const SavedSession& session) {
  const Status status = check_session(path);
  if (!status.ok()) return status;
  SessionHeader header{};
  kMagic.copy(header.magic, sizeof(header.magic));
  header.version = kVersion;
  header.token_count = static_cast<uint32_t>(session.tokens.size());
  header.fingerprint = session.fingerprint;
  header.cache_size = session.cache.size();
  header.tokens_crc32 = crc32_of(bytes_of(session.tokens));
  header.cache_crc32 = crc32_of(bytes_of(session.cache));
  header.header_crc32 = header_crc32(header);
  return write_file(path, {{reinterpret_cast<const char*>(&header), sizeof(header)},
                           bytes_of(session.tokens),
                           bytes_of(session.cache)});
}

Result<SavedSession> read_session(const std::string& path, uint64_t fingerprint) {
  const Status status = check_session(path);
  if (!status.ok()) return status;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return Status::error("cannot open the session " + path + ": " + std::strerror(errno));
  }
  SessionHeader header;
  const bool whole = std::fread(&header, sizeof(header), 1, file.get()) == 1;
  if (!whole || std::string_view(header.magic, sizeof(header.magic)) != kMagic) {
    return Status::error(path + " is not a session that this runner saved: name another file");
  }
  if (header.version != kVersion) {
    return Status::error(path + " is a session of version " + std::to_string(header.version) +
                         ", and this runner reads version " + std::to_string(kVersion) +
                         ": delete it, and the prompt is computed anew");
  }
  const Status damaged = Status::error("the session " + path +
                                       " is damaged: delete it, and the prompt is computed anew");
  const uint64_t tokens_size = uint64_t{header.token_count} * sizeof(int32_t);
  const uint64_t left = bytes_left(file.get());
  if (header_crc32(header) != header.header_crc32 || left < tokens_size ||
      left - tokens_size != header.cache_size) {
    return damaged;
  }
  if (header.fingerprint != fingerprint) {
    return Status::error("the session " + path +
                         " belongs to another model file: name another session, or delete it");
  }
  SavedSession session;
  session.fingerprint = fingerprint;
  if (!read_all(file.get(), &session.tokens, header.token_count) ||
      !read_all(file.get(), &session.cache, static_cast<size_t>(header.cache_size)) ||
      crc32_of(bytes_of(session.tokens)) != header.tokens_crc32 ||
      crc32_of(bytes_of(session.cache)) != header.cache_crc32) {
    return damaged;
  }
  return session;
}

}  // namespace thimble
