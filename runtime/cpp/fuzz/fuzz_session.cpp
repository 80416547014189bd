/// Sessions. A mutation rewrites their three checksums and their sizes. What was read is written
/// and read again.

#include <cstring>

#include "core/crc32.h"
#include "fuzz/input.h"
#include "model/session_file.h"

using thimble::SessionHeader;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  SessionHeader header;
  if (size < sizeof(header) || seed % 8 == 0) return size;
  std::memcpy(&header, data, sizeof(header));
  std::memcpy(header.magic, "THIMSESS", sizeof(header.magic));
  const size_t left = size - sizeof(header);
  const uint64_t text = uint64_t{4} * header.token_count + header.messages_size;
  if (text <= left) {
    header.cache_size = left - text;
    const uint8_t* at = data + sizeof(header);
    header.text_crc32 = thimble::crc32(at, static_cast<size_t>(text));
    header.cache_crc32 = thimble::crc32(at + text, left - static_cast<size_t>(text));
  }
  header.fingerprint = 1;
  std::memcpy(data, &header, sizeof(header));
  header.header_crc32 = thimble::crc32(data, offsetof(SessionHeader, header_crc32));
  std::memcpy(data, &header, sizeof(header));
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  static const InputFile file("session"), written("written");
  const Result<SavedSession> session = read_session(file.write(data, size), 1);
  if (!session.ok()) {
    require(!session.message().empty());
    return 0;
  }
  require(session->tokens.size() * 4 + session->cache.size() <= size);
  const std::string& path = written.write(nullptr, 0);
  require(write_session(path, *session).ok());
  const Result<SavedSession> again = read_session(path, 1);
  require(again.ok() && again->tokens == session->tokens && again->cache == session->cache);
  require(again->messages.size() == session->messages.size());
  require(again->pictures.size() == session->pictures.size());
  return 0;
}
