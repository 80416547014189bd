#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <vector>

#include "core/status.h"
#include "delegate/program/program.h"
#include "kernels/layout/layout.h"
#include "platform/pages.h"

namespace thimble::cpu {

/// The weights and floats of a program, from its named data: in place, or copied if the caller
/// asked for huge pages or the data is not aligned as the kernels need it.
class Weights {
 public:
  static Result<Weights> load(const Program& program,
                              const executorch::runtime::NamedDataMap& named_data, bool huge_pages);

  /// In the order of the program.
  const std::vector<kernels::PackedWeight>& packed() const { return packed_; }
  const float* floats() const { return floats_; }
  /// The float16 numbers of each adapter.
  const std::vector<const uint16_t*>& adapters() const { return adapters_; }

  /// Where they are, as text for people.
  std::string describe() const;

 private:
  Status load_blobs(const Program& program, const executorch::runtime::NamedDataMap& named_data);
  Status check_sizes(const Program& program) const;
  Status copy(platform::Pages::Kind kind);

  /// A blob for each weight and each adapter, and one of floats where the program has any.
  std::vector<executorch::runtime::FreeableBuffer> blobs_;
  std::vector<const uint8_t*> data_;
  platform::Pages copies_;
  bool huge_pages_ = false;
  std::vector<kernels::PackedWeight> packed_;
  const float* floats_ = nullptr;
  std::vector<const uint16_t*> adapters_;
};

}  // namespace thimble::cpu
