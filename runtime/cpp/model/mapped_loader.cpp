#include "model/mapped_loader.h"

#include <cstring>

namespace thimble {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;

executorch::runtime::Result<FreeableBuffer> MappedLoader::load(size_t offset, size_t size,
                                                               const SegmentInfo&) const {
  if (!holds(offset, size)) return Error::InvalidProgram;
  // A delegate frees weights that it has repacked: their pages need not stay in memory.
  const auto release = [](void* context, void* data, size_t count) {
    const auto* file = static_cast<const PteFile*>(context);
    file->release(static_cast<size_t>(static_cast<const uint8_t*>(data) - file->data()), count);
  };
  return FreeableBuffer(file_.data() + offset, size, release, const_cast<PteFile*>(&file_));
}

Error MappedLoader::load_into(size_t offset, size_t size, const SegmentInfo&, void* buffer) const {
  if (!holds(offset, size)) return Error::InvalidProgram;
  std::memcpy(buffer, file_.data() + offset, size);
  return Error::Ok;
}

}  // namespace thimble
