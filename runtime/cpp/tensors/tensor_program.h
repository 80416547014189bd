#pragma once

#include <executorch/extension/module/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/pte_file.h"
#include "model/recorder.h"
#include "model/session_handle.h"
#include "model/xnnpack.h"
#include "tensors/signature.h"

namespace thimble {

/// A method of a `.pte` that takes tensors and returns tensors: any module that python -m exporter
/// captured. Its buffers that a call changes keep their values until reset().
class TensorProgram {
 public:
  /// Loads `forward` of an open file; the error of one that is not.
  static Result<std::unique_ptr<TensorProgram>> load(Result<PteFile> file,
                                                     const LoadOptions& options);

  const MethodSignature& signature() const { return signature_; }
  const PteFile& file() const { return file_; }
  int32_t threads() const { return threads_; }

  /// Records what run() does; may be used from any thread.
  Recorder& recorder() { return recorder_; }

  /// Runs the method. Inputs have a name each, or are in the signature's order; what is given is
  /// only read. The outputs are in the signature's order.
  Result<std::vector<Tensor>> run(const std::vector<TensorView>& inputs);

  /// Gives the buffers that calls change the values that they had at the export.
  Status reset();

 private:
  explicit TensorProgram(PteFile file) : file_(std::move(file)) {}
  Status open();
  Status start(const LoadOptions& options);
  Status load_method();

  PteFile file_;
  MethodSignature signature_;
  Recorder recorder_;
  std::unique_ptr<SessionHandle> session_;  ///< closed after the module is gone
  std::unique_ptr<ThreadPoolUse> pool_;     ///< ends after the module is gone; null where unused
  std::unique_ptr<executorch::extension::Module> module_;
  int32_t threads_ = 0;
};

}  // namespace thimble
