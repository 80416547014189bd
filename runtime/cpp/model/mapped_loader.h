#pragma once

#include <executorch/runtime/core/data_loader.h>

#include "model/pte_file.h"

namespace thimble {

/// Gives ExecuTorch the bytes of a PteFile in place, so that the checked bytes are those that run.
class MappedLoader final : public executorch::runtime::DataLoader {
 public:
  /// `file` must outlive the loader and what it serves.
  explicit MappedLoader(const PteFile& file) : file_(file) {}

  executorch::runtime::Result<executorch::runtime::FreeableBuffer> load(
      size_t offset, size_t size, const SegmentInfo& segment_info) const override;

  executorch::runtime::Error load_into(size_t offset, size_t size, const SegmentInfo& segment_info,
                                       void* buffer) const override;

  executorch::runtime::Result<size_t> size() const override { return file_.program_size(); }

 private:
  bool holds(size_t offset, size_t size) const {
    return offset <= file_.program_size() && size <= file_.program_size() - offset;
  }

  const PteFile& file_;
};

}  // namespace thimble
