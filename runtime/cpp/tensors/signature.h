#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "tensors/tensor.h"

namespace thimble {

/// The name of a file's blob that says what its methods take (exporter/schemas/signature.fbs).
inline constexpr const char* kSignature = "thimble.signature";

/// One size of a shape: `factor` times the size that `symbol` names, and `offset`.
struct SizeRange {
  int64_t least = 0;
  int64_t most = 0;
  std::string symbol;  ///< "": none, any size of the range
  int64_t factor = 1;
  int64_t offset = 0;
};

/// What an input or an output may be.
struct TensorSpec {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<SizeRange> sizes;
  std::string hides_nan;  ///< of an input: why a NaN in it would be lost; "": it would not

  /// Such as "float32 (batch 1 to 8, 3, 224, 224)".
  std::string describe() const;
};

/// What a method takes and returns.
struct MethodSignature {
  std::string name;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<std::string> state;  ///< the buffers that a call changes

  /// Such as "x, mask".
  std::string input_names() const;
  /// As JSON: {"name": ..., "inputs": [{"name", "type", "sizes": [[least, most, symbol]]}], ...}.
  std::string to_json() const;
};

/// Reads the signatures of all methods of a file, in the order of its export; at least one.
Result<std::vector<MethodSignature>> read_signatures(std::string_view blob,
                                                     const std::string& path);

/// Puts inputs into the order of the signature: by name, those without one in their own order.
/// Fails if one is missing, too much, or given twice.
Result<std::vector<TensorView>> in_order(const MethodSignature& signature,
                                         const std::vector<TensorView>& inputs);

/// Fails if an input, in the signature's order, has another type or shape, sizes of one symbol
/// differ, or a NaN would be lost.
Status check_inputs(const MethodSignature& signature, const std::vector<TensorView>& inputs);

}  // namespace thimble
