/// Signature files and public keys. The first byte chooses which. No input can be a signature of
/// the key here, whose owner nobody is, so what it signed is never read.

#include <string>

#include "fuzz/input.h"
#include "trust/public_key.h"
#include "trust/signature_file.h"

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
  static const std::string kKey =
      "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAccgg6Dggea70kQP+eEnCxWt/2S8XKFOPaTWJU/f1uAs=\n"
      "-----END PUBLIC KEY-----\n";
  const uint8_t byte = 0;
  require(!check_signature(path.substr(0, path.size() - 4), &byte, 1, kKey).ok());
  return 0;
}
