#include "model/method_delegates.h"

#include <executorch/runtime/backend/interface.h>

#include "delegate/session/session.h"

namespace thimble {

using executorch::runtime::Error;
using executorch::runtime::MethodMeta;

std::string reason(Error error, const LogCapture& log) {
  const std::string code = executorch::runtime::to_string(error);
  return log.error().empty() ? code : log.error() + " (" + code + ")";
}

std::string advice(Error error, const LogCapture& log, bool ours, bool has_inputs) {
  if (ours && !log.error().empty()) return log.error();
  if (error == Error::OperatorMissing) {
    return log.error() + " Its kernel is not in this build: export with another --delegate";
  }
  return reason(error, log) + ": check " + (has_inputs ? "the numbers of the inputs, or " : "") +
         "the file with --verify";
}

const char* own_backend(const MethodMeta& meta) {
  for (const char* backend : {THIMBLE_CPU_BACKEND, THIMBLE_METAL_BACKEND}) {
    if (meta.uses_backend(backend)) return backend;
  }
  return nullptr;
}

bool is_one_instruction(const MethodMeta& meta) { return meta.num_instructions() == 1; }

Result<std::string> delegates_of(const MethodMeta& meta, const std::string& path) {
  std::string delegates, last;
  for (size_t i = 0; i < meta.num_backends(); ++i) {
    const auto name = meta.get_backend_name(i);
    if (!name.ok()) return Status::error(path + " is damaged: export it again");
    if (executorch::runtime::get_backend_class(*name) == nullptr) {
      return Status::error(path + " runs on " + *name +
                           ", which this runner does not include: export it with --delegate cpu");
    }
    if (*name == last) continue;
    last = *name;
    delegates += (delegates.empty() ? "" : ",") + last;
  }
  return delegates;
}

}  // namespace thimble
