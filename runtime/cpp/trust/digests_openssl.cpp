#include <openssl/evp.h>

#include <memory>

#include "trust/digests.h"

namespace thimble {

Status check_has_digests() { return {}; }

Result<Sha256> sha256(const uint8_t* data, size_t size) {
  Sha256 digest;
  unsigned int length = 0;
  if (EVP_Digest(data, size, digest.data(), &length, EVP_sha256(), nullptr) == 1 &&
      length == digest.size()) {
    return digest;
  }
  return Status::error("OpenSSL cannot compute SHA-256 here: check its settings of providers");
}

bool is_signed_with(const PublicKey& key, std::string_view message, std::string_view signature) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> opened(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  return opened != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, opened.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                          message.size()) == 1;
}

}  // namespace thimble
