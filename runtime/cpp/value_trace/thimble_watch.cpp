#include "value_trace/thimble_watch.h"

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "value_trace/value_tracer.h"

using executorch::aten::ScalarType;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;

struct thimble_watched {
  std::string path;
  std::unique_ptr<Module> module;
  thimble::ValueTracer* tracer;  // the module's
};

namespace {

constexpr char kMethod[] = "forward";

int fail(const std::string& sentence, char* error, size_t error_size) {
  std::snprintf(error, error_size, "%s", sentence.c_str());
  return 1;
}

int fail(const thimble_watched& watched, const char* what, Error code, char* error, size_t size) {
  return fail(std::string(what) + " of " + watched.path + " failed (" +
                  executorch::runtime::to_string(code) +
                  "): check the file with runner --verify, or export it again",
              error, size);
}

/// Runs the method; its values go to `on_value`.
executorch::runtime::Result<std::vector<EValue>> execute(thimble_watched* watched,
                                                         const std::vector<EValue>& inputs,
                                                         thimble_value_callback on_value,
                                                         void* context) {
  watched->tracer->show_to(on_value, context);
  auto outputs = watched->module->execute(kMethod, inputs);
  watched->tracer->show_to(nullptr, nullptr);
  return outputs;
}

}  // namespace

thimble_watched* thimble_watch_load(const char* path, char* error, size_t error_size) {
  auto tracer = std::make_unique<thimble::ValueTracer>();
  auto watched = std::make_unique<thimble_watched>();
  watched->path = path;
  watched->tracer = tracer.get();
  watched->module = std::make_unique<Module>(path, Module::LoadMode::Mmap, std::move(tracer));
  const Error code = watched->module->load_method(kMethod);
  if (code == Error::Ok) return watched.release();
  fail(*watched, "loading the method forward", code, error, error_size);
  return nullptr;
}

int thimble_watch_call(thimble_watched* watched, const int64_t* tokens, int64_t count,
                       int64_t start_pos, thimble_value_callback on_value, void* context,
                       float* row, int64_t width, char* error, size_t error_size) {
  const auto tokens_tensor = executorch::extension::from_blob(
      const_cast<int64_t*>(tokens), {1, static_cast<int32_t>(count)}, ScalarType::Long);
  const auto position_tensor = executorch::extension::from_blob(&start_pos, {1}, ScalarType::Long);
  std::vector<EValue> inputs = {EValue(*tokens_tensor), EValue(*position_tensor)};
  const auto meta = watched->module->method_meta(kMethod);
  if (meta.ok() && meta->num_inputs() == 1) inputs.pop_back();
  const auto outputs = execute(watched, inputs, on_value, context);
  if (!outputs.ok()) return fail(*watched, "a call", outputs.error(), error, error_size);
  if (outputs->size() != 1 || !outputs->front().isTensor() ||
      outputs->front().toTensor().scalar_type() != ScalarType::Float ||
      outputs->front().toTensor().numel() != width) {
    return fail("the output of " + watched->path + " is not float32 (1, " + std::to_string(width) +
                    "): export it with thimble-export",
                error, error_size);
  }
  std::copy_n(outputs->front().toTensor().const_data_ptr<float>(), width, row);
  return 0;
}

int thimble_watch_run(thimble_watched* watched, const thimble_watch_tensor* inputs, size_t count,
                      thimble_value_callback on_value, void* context, char* error,
                      size_t error_size) {
  std::vector<executorch::extension::TensorPtr> tensors;
  std::vector<EValue> values;
  for (size_t i = 0; i < count; ++i) {
    const auto& [data, type, rank, sizes] = inputs[i];
    tensors.push_back(executorch::extension::from_blob(
        const_cast<void*>(data), {sizes, sizes + rank}, static_cast<ScalarType>(type)));
    values.emplace_back(*tensors.back());
  }
  const auto outputs = execute(watched, values, on_value, context);
  return outputs.ok() ? 0 : fail(*watched, "a call", outputs.error(), error, error_size);
}

void thimble_watch_free(thimble_watched* watched) { delete watched; }
