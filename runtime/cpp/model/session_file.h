#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "tokenizer/chat_template.h"

namespace thimble {

inline constexpr uint32_t kSessionVersion = 2;     ///< the version that is written
inline constexpr uint32_t kPictureVersion = 4;     ///< that of one with pictures
inline constexpr uint32_t kOldPictureVersion = 3;  ///< can also be read: without sizes of wholes
inline constexpr uint32_t kOldSessionVersion = 1;  ///< can also be read: without messages

/// A picture of a session, whose rows stand among its tokens as first, first - 1, ...
struct SavedPicture {
  int32_t first = 0;
  uint32_t rows = 0, columns = 0;  ///< of tiles
  uint32_t width = 0, height = 0;  ///< of the whole, pixels; 0: as a tile
  std::vector<uint8_t> pixels;     ///< of the tiles
};

/// A key/value cache to resume from, its tokens, and the conversation that they belong to, if any.
/// As a file, little endian: SessionHeader | int32 tokens[token_count] | pictures | messages | the
/// delegate's cache_size bytes. Versions 3 and 4 alone have pictures: uint32 count, and for each
/// int32 first | uint32 rows | uint32 columns | in version 4 uint32 width | uint32 height | uint32
/// size | size bytes. A message is: uint32 role (0 system, 1 user, 2 assistant) | uint32 size |
/// size bytes of UTF-8; with pictures then uint32 count | uint32 indices of pictures.
struct SavedSession {
  uint64_t fingerprint = 0;       ///< PteFile::fingerprint() of the model
  std::vector<int32_t> tokens;    ///< from position 0 on
  std::vector<Message> messages;  ///< the system's, if any; then turns of a user and an assistant
  std::vector<SavedPicture> pictures;
  std::vector<std::vector<uint32_t>> message_pictures;  ///< of each message, by index
  std::vector<uint8_t> cache;
};

struct SessionHeader {
  char magic[8];  ///< "THIMSESS"
  uint32_t version;
  uint32_t token_count;
  uint64_t fingerprint;
  uint64_t cache_size;
  uint32_t text_crc32;  ///< of tokens, pictures and messages
  uint32_t cache_crc32;
  uint32_t messages_size;  ///< in bytes, with the pictures; 0 in version 1
  uint32_t header_crc32;   ///< of all before it
};
static_assert(sizeof(SessionHeader) == 48, "the header is 48 bytes in the file");

/// Whether a session may lie there, or a new one be written: a pipe, say, would be waited for.
Status check_session(const std::string& path);

/// The error of a session whose file is damaged.
Status damaged_session(const std::string& path);

/// Writes a session whole or not at all.
Status write_session(const std::string& path, const SavedSession& session);

/// Reads a session and checks that it is sound and of the model with this fingerprint. The error
/// names the file and what is wrong with it.
Result<SavedSession> read_session(const std::string& path, uint64_t fingerprint);

}  // namespace thimble
