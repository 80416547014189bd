#include "platform/pages.h"

#include <cstring>
#include <vector>

namespace thimble::platform {
namespace {

constexpr size_t kPage = size_t{1} << 16;

struct Block {
  uint8_t* data;
  size_t size;
};

/// Memory only grows, so what is released is used again.
std::vector<Block>& released() {
  static std::vector<Block> blocks;
  return blocks;
}

/// The smallest released block of at least `size` bytes, as zeros; else none.
Block take_released(size_t size) {
  std::vector<Block>& blocks = released();
  size_t best = blocks.size();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size >= size && (best == blocks.size() || blocks[i].size < blocks[best].size)) {
      best = i;
    }
  }
  if (best == blocks.size()) return {nullptr, 0};
  const Block block = blocks[best];
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(best));
  std::memset(block.data, 0, block.size);
  return block;
}

/// New memory is zeros, resident where it is written; not malloc()'s, which would write it.
Block grow(size_t size) {
  const size_t before = __builtin_wasm_memory_grow(0, size / kPage);
  if (before == SIZE_MAX) return {nullptr, 0};
  return {reinterpret_cast<uint8_t*>(before * kPage), size};
}

}  // namespace

size_t page_size() { return kPage; }

Pages Pages::allocate(size_t bytes, Kind) {
  Pages pages;
  if (bytes == 0 || bytes > SIZE_MAX - kPage) return pages;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  Block block = take_released(size);
  if (block.data == nullptr) block = grow(size);
  if (block.data == nullptr) return pages;
  pages.data_ = block.data;
  pages.size_ = bytes;
  pages.mapping_ = block.data;
  pages.mapping_size_ = block.size;
  return pages;
}

Pages::~Pages() {
  if (mapping_ != nullptr) released().push_back({data_, mapping_size_});
}

size_t Pages::huge_bytes() const { return 0; }

}  // namespace thimble::platform
