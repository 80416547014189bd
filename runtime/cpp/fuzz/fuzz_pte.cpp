/// The integrity record of a `.pte`. A mutation rewrites its checksum and its place, as else none
/// comes further; the ranges keep those that they have.

#include <cstring>

#include "core/crc32.h"
#include "fuzz/input.h"
#include "model/pte_file.h"

namespace {

struct Footer {
  uint32_t record_size;
  uint32_t record_crc32;
  char magic[8];
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  Footer footer;
  if (size < sizeof(footer) || seed % 8 == 0) return size;
  std::memcpy(&footer, data + size - sizeof(footer), sizeof(footer));
  const size_t before = size - sizeof(footer);
  if (footer.record_size > before) footer.record_size = static_cast<uint32_t>(before);
  footer.record_crc32 = thimble::crc32(data + before - footer.record_size, footer.record_size);
  std::memcpy(footer.magic, "THIMBLE1", sizeof(footer.magic));
  std::memcpy(data + before, &footer, sizeof(footer));
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  static const InputFile model("model.pte");
  const Result<PteFile> file = PteFile::open(data, size, "model.pte");
  const Result<PteFile> mapped = PteFile::open(model.write(data, size), "");
  require(mapped.ok() == file.ok());
  if (!file.ok()) {
    require(!file.message().empty() && !mapped.message().empty());
    return 0;
  }
  require(file->program_size() <= size);
  require(file->verify().ok() == mapped->verify().ok());
  require(file->has("thimble.tokenizer") == mapped->has("thimble.tokenizer"));
  require(mapped->check_output("another").ok());
  return 0;
}
