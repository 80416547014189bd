#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/pte_file.h"
#include "model/session_handle.h"
#include "tensors/signature.h"

namespace thimble {

class OpenProgram;
class Recorder;

/// A `.pte` whose methods take tensors and return tensors: any module that python -m exporter
/// captured. Buffers that calls change keep their values until reset().
class TensorProgram {
 public:
  /// Opens the program of an open file; the error of one that is not.
  static Result<std::unique_ptr<TensorProgram>> open(Result<PteFile> file,
                                                     const LoadOptions& options);

  const PteFile& file() const { return file_; }
  /// Threads of the loaded methods.
  int32_t threads() const;
  /// Records what run() does; may be used from any thread.
  Recorder& recorder();

  /// A named blob, in place, valid as long as the program; empty if not found.
  std::string_view named_data(const char* name);

  /// All methods, in the order of the export.
  const std::vector<MethodSignature>& methods() const { return methods_; }

  /// The method of a name; "": forward, or the first if there is no forward. The error has the
  /// names.
  Result<const MethodSignature*> find(const std::string& name) const;

  /// Loads a method of methods() before its first run, which does it otherwise.
  Status load(const MethodSignature& method);

  /// Runs a method of methods(). Inputs have a name each, or are in the signature's order; what is
  /// given is only read. The outputs are in the signature's order.
  Result<std::vector<Tensor>> run(const MethodSignature& method,
                                  const std::vector<TensorView>& inputs);

  /// Gives the buffers that calls of a method change the values that they had at the export.
  Status reset(const MethodSignature& method);

 private:
  explicit TensorProgram(PteFile file) : file_(std::move(file)) {}
  Status read_methods();

  PteFile file_;
  std::shared_ptr<OpenProgram> program_;
  std::vector<MethodSignature> methods_;
};

}  // namespace thimble
