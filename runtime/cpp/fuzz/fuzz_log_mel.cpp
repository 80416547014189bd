/// How a model reads sound (exporter/schemas/log_mel.fbs).

#include "fuzz/input.h"
#include "sound/log_mel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto settings = thimble::LogMelSettings::load(data, size);
  thimble::require(settings.ok() || !settings.message().empty());
  return 0;
}
