#pragma once

#include <executorch/extension/module/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/pte_file.h"
#include "model/recorder.h"
#include "model/session_handle.h"
#include "model/xnnpack.h"

namespace thimble {

/// The method that computes the complete model, by the name that ExecuTorch's runners use.
inline constexpr const char* kForward = "forward";

/// The program inside a PteFile, open in ExecuTorch. Its methods share its weights, one session of
/// our delegates, ExecuTorch's threads, the recorder, and the buffers that were exported as shared.
class OpenProgram {
 public:
  /// Opens the program of `file`, which must outlive it. No method is loaded.
  static Result<std::shared_ptr<OpenProgram>> open(const PteFile& file, const LoadOptions& options);

  const PteFile& file() const { return file_; }

  /// What ExecuTorch knows of a method; nothing if the program has none of that name.
  std::optional<executorch::runtime::MethodMeta> meta(const std::string& method);

  /// Loads a method that is not loaded yet, and starts only the threads that it will run on.
  /// Methods that share buffers are loaded together: loading sets what is in them.
  Status load(const std::string& method);

  /// Loads it again, and what shares buffers with it: they get the values of the export.
  Status reload(const std::string& method);

  /// Runs a method. The outputs are valid until the next call. The error has only the reason.
  Result<std::vector<executorch::runtime::EValue>> execute(
      const std::string& method, const std::vector<executorch::runtime::EValue>& inputs);

  /// The integers that a method without inputs returns; nothing if there is none.
  std::vector<int64_t> constants(const std::string& method);

  /// The one number that a method without inputs returns; nothing if there is none.
  std::optional<double> number(const std::string& method);

  std::vector<std::string> method_names() const;

  /// A named blob, in place, valid as long as the program; empty if not found.
  std::string_view named_data(const char* name);

  /// Threads of the loaded methods.
  int32_t threads() const { return threads_; }
  /// Null if none of the loaded methods runs on our delegates.
  SessionHandle* session() const { return session_.get(); }
  /// Records what execute() does; may be used from any thread.
  Recorder& recorder() { return recorder_; }

 private:
  OpenProgram(const PteFile& file, const LoadOptions& options) : file_(file), options_(options) {}
  Status open();
  /// What a method without inputs returns; nothing if there is none.
  std::vector<executorch::runtime::EValue> returned(const std::string& method);
  /// The methods that a load of one loads.
  std::vector<std::string> loaded_with(const std::string& method);
  Status start(const executorch::runtime::MethodMeta& meta);
  Status load_alone(const std::string& method);

  const PteFile& file_;
  const LoadOptions options_;
  Recorder recorder_;
  std::unique_ptr<SessionHandle> session_;  ///< closed after the module is gone
  std::unique_ptr<ThreadPoolUse> pool_;     ///< ends after the module is gone; null where unused
  std::unique_ptr<executorch::runtime::DataLoader> loader_;  ///< of the program
  std::shared_ptr<executorch::runtime::Program> program_;
  std::unique_ptr<executorch::extension::Module> module_;
  std::vector<std::string> sharing_;  ///< methods with shared buffers
  bool has_own_ = false;              ///< whether a method runs on our delegates
  int xnnpack_methods_ = 0;           ///< where several do, XNNPACK packs a weight once for all
  std::vector<executorch::runtime::FreeableBuffer> blobs_;
  int32_t threads_ = 0;
};

}  // namespace thimble
