/// Signature files and public keys. The first byte chooses which. A mutation signs its record anew,
/// with a key that is no secret, as else none comes further.

#include <openssl/evp.h>

#include <string>

#include "fuzz/input.h"
#include "trust/public_key.h"
#include "trust/signature_file.h"

namespace {

constexpr size_t kSignature = 64;
constexpr uint8_t kSigned = 0;  // the only byte of the file

/// The key whose bytes are all 7.
EVP_PKEY* private_key() {
  const std::string bytes(32, '\7');
  static EVP_PKEY* const key = EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return key;
}

const std::string& public_key() {
  static const std::string key = [] {
    std::string bytes(32, '\0');
    size_t size = bytes.size();
    EVP_PKEY_get_raw_public_key(private_key(), reinterpret_cast<uint8_t*>(&bytes[0]), &size);
    static const thimble::InputFile file("known");
    return file.write(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  }();
  return key;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (size <= 1 + kSignature || data[0] % 2 == 0 || seed % 8 == 0) return size;
  const size_t record = size - 1 - kSignature;
  size_t written = kSignature;
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  thimble::require(EVP_DigestSignInit(context, nullptr, nullptr, nullptr, private_key()) == 1);
  thimble::require(EVP_DigestSign(context, data + 1 + record, &written, data + 1, record) == 1);
  EVP_MD_CTX_free(context);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  if (size == 0) return 0;
  static const InputFile signature("model.sig"), key("key");
  if (data[0] % 2 == 0) {
    const Result<PublicKey> read = read_public_key(key.write(data + 1, size - 1));
    require(read.ok() || !read.message().empty());
    return 0;
  }
  const std::string& path = signature.write(data + 1, size - 1);
  const Status status = check_signature(path.substr(0, path.size() - 4), &kSigned, 1, public_key());
  require(status.ok() || !status.message().empty());
  return 0;
}
