#include "model/session_file.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/crc32.h"
#include "platform/output_file.h"

namespace thimble {
namespace {

constexpr std::string_view kMagic = "THIMSESS";
constexpr std::string_view kRoles[] = {"system", "user", "assistant"};

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void append(std::string* bytes, size_t number) {
  const auto value = static_cast<uint32_t>(number);
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The pictures and messages.
std::string to_bytes(const SavedSession& session) {
  std::string bytes;
  const bool has_pictures = !session.pictures.empty();
  if (has_pictures) append(&bytes, session.pictures.size());
  for (const SavedPicture& picture : session.pictures) {
    append(&bytes, static_cast<uint32_t>(picture.first));
    append(&bytes, picture.rows);
    append(&bytes, picture.columns);
    append(&bytes, picture.width);
    append(&bytes, picture.height);
    append(&bytes, picture.pixels.size());
    bytes += bytes_of(picture.pixels);
  }
  for (size_t i = 0; i < session.messages.size(); ++i) {
    const Message& message = session.messages[i];
    size_t role = 0;
    while (kRoles[role] != message.role) ++role;
    append(&bytes, role);
    append(&bytes, message.content.size());
    bytes += message.content;
    if (!has_pictures) continue;
    append(&bytes, session.message_pictures[i].size());
    for (const uint32_t picture : session.message_pictures[i]) append(&bytes, picture);
  }
  return bytes;
}

std::optional<uint32_t> take_number(std::string_view* bytes) {
  uint32_t number = 0;
  if (bytes->size() < sizeof(number)) return std::nullopt;
  std::memcpy(&number, bytes->data(), sizeof(number));
  bytes->remove_prefix(sizeof(number));
  return number;
}

/// So many bytes; nothing if there are fewer.
std::optional<std::string_view> take_bytes(std::string_view* bytes, std::optional<uint32_t> size) {
  if (!size || *size > bytes->size()) return std::nullopt;
  const std::string_view taken = bytes->substr(0, *size);
  bytes->remove_prefix(*size);
  return taken;
}

bool take_pictures(std::string_view* bytes, bool have_sizes, std::vector<SavedPicture>* pictures) {
  const std::optional<uint32_t> count = take_number(bytes);
  for (uint32_t i = 0; count && i < *count; ++i) {
    const auto first = take_number(bytes), rows = take_number(bytes), columns = take_number(bytes);
    const auto width = have_sizes ? take_number(bytes) : 0;
    const auto height = have_sizes ? take_number(bytes) : 0;
    const auto pixels = take_bytes(bytes, take_number(bytes));
    if (!first || !rows || !columns || !width || !height || !pixels) return false;
    pictures->push_back({static_cast<int32_t>(*first),
                         *rows,
                         *columns,
                         *width,
                         *height,
                         {pixels->begin(), pixels->end()}});
  }
  return count && *count > 0;
}

/// False unless the bytes are the messages of complete turns after at most one system message, and
/// before them the pictures, in versions that have them.
bool read_text(std::string_view bytes, uint32_t version, SavedSession* session) {
  const bool has_pictures = version >= kOldPictureVersion, has_sizes = version >= kPictureVersion;
  if (has_pictures && !take_pictures(&bytes, has_sizes, &session->pictures)) return false;
  uint32_t before = 2;  // a conversation starts as if after an answer
  while (!bytes.empty()) {
    const std::optional<uint32_t> role = take_number(&bytes);
    const auto content = take_bytes(&bytes, take_number(&bytes));
    if (!role || !content) return false;
    const bool in_order = *role == 0 ? session->messages.empty() : *role == (before == 1 ? 2 : 1);
    if (!in_order) return false;
    session->messages.push_back({std::string(kRoles[*role]), std::string(*content)});
    session->message_pictures.emplace_back();
    const std::optional<uint32_t> count = has_pictures ? take_number(&bytes) : 0;
    if (!count) return false;
    for (uint32_t i = 0; i < *count; ++i) {
      const std::optional<uint32_t> picture = take_number(&bytes);
      if (!picture || *picture >= session->pictures.size()) return false;
      session->message_pictures.back().push_back(*picture);
    }
    before = *role;
  }
  return before != 1;
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

/// The number of bytes from the current position of the file to its end.
uint64_t bytes_left(std::FILE* file) {
  const long at = std::ftell(file);
  std::fseek(file, 0, SEEK_END);
  const long end = std::ftell(file);
  std::fseek(file, at, SEEK_SET);
  return at >= 0 && end >= at ? static_cast<uint64_t>(end - at) : 0;
}

/// Fills a string or a vector of bytes.
template <typename Bytes>
bool read_all(std::FILE* file, Bytes* bytes, size_t size) {
  bytes->resize(size);
  return size == 0 || std::fread(bytes->data(), 1, size, file) == size;
}

/// Whether a session may be written there: nothing is there, or an empty file, or a session.
bool may_replace(const std::string& path) {
  if (platform::file_kind(path) == platform::FileKind::kAbsent) return true;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  char magic[kMagic.size()];
  const size_t read = file == nullptr ? 0 : std::fread(magic, 1, sizeof(magic), file.get());
  return read == 0 || std::string_view(magic, read) == kMagic;
}

}  // namespace

Status check_session(const std::string& path) {
  if (platform::file_kind(path) != platform::FileKind::kOther) return {};
  return Status::error(path +
                       " is not a regular file, so it cannot store a session: name another file");
}

Status damaged_session(const std::string& path) {
  return Status::error("the session " + path +
                       " is damaged: name another file, or delete it to start a new session");
}

Status write_session(const std::string& path, const SavedSession& session) {
  const Status status = check_session(path);
  if (!status.ok()) return status;
  if (!may_replace(path)) {
    return Status::error(path + " is not a session that this runner saved: name another file");
  }
  const std::string messages = to_bytes(session);
  std::string text(bytes_of(session.tokens));
  text += messages;
  if (messages.size() > std::numeric_limits<uint32_t>::max()) {
    return Status::error("the conversation is too long to be saved to " + path +
                         ", the limit is 4 GB of text and pictures: start a new one");
  }
  SessionHeader header{};
  kMagic.copy(header.magic, sizeof(header.magic));
  header.version = session.pictures.empty() ? kSessionVersion : kPictureVersion;
  header.token_count = static_cast<uint32_t>(session.tokens.size());
  header.fingerprint = session.fingerprint;
  header.cache_size = session.cache.size();
  header.text_crc32 = crc32_of(text);
  header.cache_crc32 = crc32_of(bytes_of(session.cache));
  header.messages_size = static_cast<uint32_t>(messages.size());
  header.header_crc32 = header_crc32(header);
  return platform::write_file(
      path,
      {{reinterpret_cast<const char*>(&header), sizeof(header)}, text, bytes_of(session.cache)});
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
  if (header.version < kOldSessionVersion || header.version > kPictureVersion) {
    return Status::error(path + " is a session of version " + std::to_string(header.version) +
                         ", and this runner reads versions " + std::to_string(kOldSessionVersion) +
                         " to " + std::to_string(kPictureVersion) +
                         ": name another file, or delete it to start a new session");
  }
  const Status damaged = damaged_session(path);
  const uint64_t text_size = uint64_t{header.token_count} * sizeof(int32_t) + header.messages_size;
  const uint64_t left = bytes_left(file.get());
  if (header_crc32(header) != header.header_crc32 || left < text_size ||
      left - text_size != header.cache_size) {
    return damaged;
  }
  if (header.fingerprint != fingerprint) {
    return Status::error("the session " + path +
                         " belongs to another model file: name another session, or delete it");
  }
  SavedSession session;
  std::string text;
  session.fingerprint = fingerprint;
  if (!read_all(file.get(), &text, static_cast<size_t>(text_size)) ||
      !read_all(file.get(), &session.cache, static_cast<size_t>(header.cache_size)) ||
      crc32_of(text) != header.text_crc32 ||
      crc32_of(bytes_of(session.cache)) != header.cache_crc32) {
    return damaged;
  }
  session.tokens.resize(header.token_count);
  const size_t tokens_size = session.tokens.size() * sizeof(int32_t);
  if (tokens_size > 0) std::memcpy(session.tokens.data(), text.data(), tokens_size);
  if (!read_text(std::string_view(text).substr(tokens_size), header.version, &session)) {
    return damaged;
  }
  return session;
}

}  // namespace thimble
