#include "trust/public_key.h"

#include <algorithm>
#include <string_view>

#include "platform/mapped_file.h"

namespace thimble {
namespace {

constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END PUBLIC KEY-----";
/// What the base64 of every Ed25519 key in PEM begins with: its algorithm, in twelve bytes.
constexpr std::string_view kAlgorithm = "MCowBQYDK2VwAyEA";
constexpr size_t kMostKeyBytes = 1 << 16;  // more is no key

bool is_text(const std::string& key) { return key.rfind(kBegin, 0) == 0; }

/// The bytes of base64 without spaces; as many as can be read.
std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

Result<std::string> content_of(const std::string& path) {
  platform::MappedFile file;
  std::string reason = "it is not a file, or is empty";
  if (file.open(path, &reason) == platform::MappedFile::Error::kNone) {
    return std::string(reinterpret_cast<const char*>(file.data()),
                       std::min(file.size(), kMostKeyBytes));
  }
  return Status::error("the public key " + path + " cannot be read (" + reason +
                       "): name the file that openssl pkey -pubout wrote");
}

/// The key's bytes: those of PEM, or of a file that has nothing else.
std::string raw_key(const std::string& content) {
  std::string pem = content;
  pem.erase(std::remove_if(pem.begin(), pem.end(), [](char c) { return c == '\n' || c == '\r'; }),
            pem.end());
  const std::string begin = "-----BEGIN PUBLIC KEY-----" + std::string(kAlgorithm);
  const size_t end = pem.find(kEnd);
  if (pem.rfind(begin, 0) != 0 || end == std::string::npos) return content;
  return from_base64(std::string_view(pem).substr(begin.size(), end - begin.size()));
}

}  // namespace

std::string name_of_key(const std::string& key) {
  return is_text(key) ? "the public key" : "the public key " + key;
}

Result<PublicKey> read_public_key(const std::string& key) {
  const Result<std::string> content = is_text(key) ? Result<std::string>(key) : content_of(key);
  if (!content.ok()) return content.status();
  const std::string bytes = raw_key(*content);
  PublicKey read;
  if (bytes.size() == read.size()) {
    std::copy(bytes.begin(), bytes.end(), read.begin());
    return read;
  }
  if (content->find("PRIVATE KEY-----") != std::string::npos) {
    return Status::error(name_of_key(key) +
                         " is a private key, which only its owner should have: name the public "
                         "one, which openssl pkey -pubout writes");
  }
  return Status::error(name_of_key(key) +
                       " is not an Ed25519 key: name the file that openssl pkey -pubout wrote, or "
                       "one of the key's 32 bytes");
}

}  // namespace thimble
