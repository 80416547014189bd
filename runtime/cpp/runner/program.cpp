#include "runner/program.h"

#include <dlfcn.h>
#include <executorch/extension/tensor/tensor.h>

#include <utility>

#include "ops/llama_ops.h"
#include "runner/log_capture.h"
#include "runner/mapped_loader.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using executorch::runtime::EValue;

/// ExecuTorch's error as the end of a sentence.
std::string reason(Error error, const LogCapture& log) {
  const std::string code = executorch::runtime::to_string(error);
  return log.error().empty() ? code : log.error() + " (" + code + ")";
}

/// Brings in ExecuTorch's quantized kernels unless the process has them: two copies would abort it,
/// and Python's executorch.kernels.quantized carries its own.
void load_quantized_kernels() {
  static const bool done = [] {
    const LogCapture quiet;
    constexpr const char* kOne = "quantized_decomposed::embedding_byte.out";
    if (!executorch::runtime::registry_has_op_function(kOne)) {
      dlopen("libexecutorch_kernels_quantized.so", RTLD_NOW | RTLD_LOCAL);
    }
    return true;
  }();
  (void)done;
}

}  // namespace

Result<std::unique_ptr<Program>> Program::load(const PteFile& file, Profile* profile) {
  load_quantized_kernels();
  std::unique_ptr<Program> program(new Program(file));
  LogCapture log;
  program->module_ =
      std::make_unique<executorch::extension::Module>(std::make_unique<MappedLoader>(file));
  const Error error = program->module_->load();
  if (error != Error::Ok) {
    return Status::error(file.path() + " does not hold a program that ExecuTorch can load: " +
                         reason(error, log) + ": export it again");
  }
  Status status = program->read_constants();
  if (status.ok()) status = program->load_forward(profile);
  if (!status.ok()) return status;
  return program;
}

Status Program::read_constant(const char* method, int64_t* value) {
  LogCapture log;
  const auto outputs = module_->execute(method);
  if (outputs.ok() && outputs->size() == 1 && outputs->front().isInt()) {
    *value = outputs->front().toInt();
    if (*value > 0) return {};
  }
  return Status::error(file_.path() + " has no positive number " + method +
                       ": export it with python -m exporter");
}

Status Program::read_constants() {
  const std::pair<const char*, int64_t*> numbers[] = {{"get_max_seq_len", &max_seq_len_},
                                                      {"get_max_context_len", &max_context_len_},
                                                      {"get_vocab_size", &vocab_size_}};
  for (const auto& [method, value] : numbers) {
    Status status = read_constant(method, value);
    if (!status.ok()) return status;
  }
  LogCapture log;
  const auto eos_ids = module_->execute("get_eos_ids");
  if (!eos_ids.ok()) return {};
  for (const EValue& id : *eos_ids) {
    if (id.isInt()) eos_ids_.push_back(static_cast<int32_t>(id.toInt()));
  }
  return {};
}

Status Program::load_forward(Profile* profile) {
  LogCapture log;
  const auto meta = module_->method_meta("forward");
  bool expected = meta.ok() && meta->num_inputs() == 2 && meta->num_outputs() == 1;
  for (size_t i = 0; expected && i < 2; ++i) {
    const auto input = meta->input_tensor_meta(i);
    expected = input.ok() && input->scalar_type() == ScalarType::Long;
  }
  if (expected) {
    const auto output = meta->output_tensor_meta(0);
    expected = output.ok() && output->scalar_type() == ScalarType::Float &&
               output->nbytes() == sizeof(float) * static_cast<size_t>(vocab_size_);
  }
  if (!expected) {
    return Status::error(file_.path() +
                         " has no method forward(tokens, input_pos) -> logits: export it with "
                         "python -m exporter");
  }
  const Error error = module_->load_forward(nullptr, profile, nullptr, llama_kernels());
  if (error == Error::Ok) return {};
  return Status::error("cannot load the model of " + file_.path() + ": " + reason(error, log) +
                       ": check the file with --verify");
}

std::string_view Program::named_data(const char* name) {
  LogCapture log;
  const auto map = module_->program()->get_named_data_map();
  if (!map.ok()) return {};
  auto blob = (*map)->get_data(name);
  if (!blob.ok()) return {};
  const std::string_view bytes(static_cast<const char*>(blob->data()), blob->size());
  blobs_.push_back(std::move(*blob));
  return bytes;
}

Result<const float*> Program::forward(const std::vector<int64_t>& tokens, int64_t start_pos) {
  LogCapture log;
  const auto tokens_tensor =
      executorch::extension::from_blob(const_cast<int64_t*>(tokens.data()),
                                       {1, static_cast<int32_t>(tokens.size())}, ScalarType::Long);
  const auto position_tensor = executorch::extension::from_blob(&start_pos, {1}, ScalarType::Long);
  const auto outputs = module_->forward({EValue(*tokens_tensor), EValue(*position_tensor)});
  if (!outputs.ok()) {
    return Status::error("the model failed at position " + std::to_string(start_pos) + ": " +
                         reason(outputs.error(), log) + ": check the file with --verify");
  }
  if (outputs->size() != 1 || !outputs->front().isTensor() ||
      outputs->front().toTensor().numel() != vocab_size_) {
    return Status::error("the model's logits are not (1, " + std::to_string(vocab_size_) +
                         "): export it with python -m exporter");
  }
  return outputs->front().toTensor().const_data_ptr<float>();
}

}  // namespace thimble
