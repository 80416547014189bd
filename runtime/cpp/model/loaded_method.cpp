#include "model/loaded_method.h"

#include <executorch/extension/tensor/tensor.h>

#include <optional>
#include <utility>

#include "model/method_delegates.h"
#include "model/open_program.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;

}  // namespace

Result<std::unique_ptr<LoadedMethod>> LoadedMethod::load(
    Result<std::shared_ptr<OpenProgram>> program, const std::string& method, Signature signature) {
  if (!program.ok()) return program.status();
  std::unique_ptr<LoadedMethod> loaded(new LoadedMethod(std::move(*program), method, signature));
  Status status = loaded->read_constants();
  if (status.ok()) status = loaded->load_method();
  if (!status.ok()) return status;
  return loaded;
}

int32_t LoadedMethod::threads() const { return program_->threads(); }

SessionHandle* LoadedMethod::session() const { return program_->session(); }

Recorder& LoadedMethod::recorder() { return program_->recorder(); }

std::string_view LoadedMethod::named_data(const char* name) { return program_->named_data(name); }

const std::string& LoadedMethod::path() const { return program_->file().path(); }

Status LoadedMethod::read_constant(const char* name, int64_t* value) {
  const std::vector<int64_t> numbers = program_->constants(name);
  if (numbers.size() == 1 && numbers.front() > 0) {
    *value = numbers.front();
    return {};
  }
  return Status::error(path() + " has no positive number " + name +
                       ": export it with thimble-export");
}

Status LoadedMethod::read_constants() {
  if (!named_data("thimble.transcription").empty()) {
    return Status::error(path() +
                         " is a model that hears, not of language: give it sound, with "
                         "thimble-runner --audio or Python's Transcriber");
  }
  const std::pair<const char*, int64_t*> numbers[] = {{"get_max_seq_len", &max_seq_len_},
                                                      {"get_max_context_len", &max_context_len_},
                                                      {"get_vocab_size", &vocab_size_}};
  for (const auto& [name, value] : numbers) {
    Status status = read_constant(name, value);
    if (!status.ok()) return status;
  }
  read_sampling();
  keeps_states_ = !program_->constants("get_keeps_states").empty();
  for (const int64_t id : program_->constants("get_eos_ids")) {
    eos_ids_.push_back(static_cast<int32_t>(id));
  }
  return {};
}

void LoadedMethod::read_sampling() {
  constexpr std::string_view kPrefix = "get_sampling_";  // as exporter/file/report.py
  for (const std::string& name : program_->method_names()) {
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    const std::optional<double> number = program_->number(name);
    if (number) sampling_[name.substr(kPrefix.size())] = *number;
  }
}

Status LoadedMethod::no_method() const {
  return Status::error(path() + " has no method " + method_ +
                       "(tokens, input_pos) -> logits: export it with thimble-export");
}

/// Of a file whose method is as another command has it.
Status LoadedMethod::other_signature(const MethodMeta& meta) const {
  if (signature_ == Signature::kLogits && meta.num_inputs() == 1) {
    return Status::error(
        path() +
        " embeds texts and generates none: use thimble-runner --embed, or Embedder in "
        "Python");
  }
  if (signature_ == Signature::kRow && meta.num_inputs() == 2) {
    return Status::error(
        path() +
        " generates text and embeds none: use thimble-runner -p or --chat, or Runner in "
        "Python");
  }
  return no_method();
}

Status LoadedMethod::check_signature(const MethodMeta& meta) {
  const size_t inputs = signature_ == Signature::kLogits ? 2 : 1;
  bool expected = meta.num_inputs() == inputs && meta.num_outputs() == 1;
  for (size_t i = 0; expected && i < inputs; ++i) {
    const auto input = meta.input_tensor_meta(i);
    expected = input.ok() && input->scalar_type() == ScalarType::Long;
  }
  if (expected) {
    const auto output = meta.output_tensor_meta(0);
    width_ = output.ok() ? static_cast<int64_t>(output->nbytes() / sizeof(float)) : 0;
    expected = output.ok() && output->scalar_type() == ScalarType::Float && width_ > 0 &&
               (signature_ == Signature::kRow || width_ == vocab_size_);
  }
  return expected ? Status() : other_signature(meta);
}

Status LoadedMethod::load_method() {
  const std::optional<MethodMeta> meta = program_->meta(method_);
  Status status = meta ? check_signature(*meta) : no_method();
  if (status.ok()) status = program_->load(method_);
  if (!status.ok()) return status;
  const Result<std::string> delegates = delegates_of(*meta, path());
  if (delegates.ok()) delegates_ = *delegates;
  runs_segments_ = meta->uses_backend(THIMBLE_CPU_BACKEND) && is_one_instruction(*meta);
  if (SessionHandle* session = program_->session()) original_context_ = session->original_context();
  return delegates.status();
}

Result<const float*> LoadedMethod::run(const std::vector<int64_t>& tokens, int64_t start_pos) {
  return execute(tokens, start_pos, start_pos > 0 && tokens.size() == 1 ? "decode" : "prefill");
}

Result<const float*> LoadedMethod::run(const std::vector<int64_t>& tokens,
                                       const std::vector<thimble_segment>& segments) {
  int64_t rows = 0;
  bool decodes = true;
  for (const thimble_segment& segment : segments) {
    rows += signature_ == Signature::kRow ? 1 : segment.logit_rows;
    decodes = decodes && segment.start_pos > 0 && segment.logit_rows == segment.rows;
  }
  // What is there is not cleared again for a call of more rows than the one before.
  const auto size = static_cast<size_t>(rows * width_);
  if (logits_.size() < size) logits_.resize(size);
  const Status status = session()->ask_for(segments, &logits_);
  if (!status.ok()) return status;
  const Result<const float*> last =
      execute(tokens, segments.front().start_pos, decodes ? "decode" : "prefill");
  return last.ok() ? Result<const float*>(logits_.data()) : last;
}

Result<const float*> LoadedMethod::execute(const std::vector<int64_t>& tokens, int64_t start_pos,
                                           const char* phase) {
  const auto tokens_tensor =
      executorch::extension::from_blob(const_cast<int64_t*>(tokens.data()),
                                       {1, static_cast<int32_t>(tokens.size())}, ScalarType::Long);
  const auto position_tensor = executorch::extension::from_blob(&start_pos, {1}, ScalarType::Long);
  const Recorder::Call call(recorder(), phase, static_cast<int64_t>(tokens.size()));
  std::vector<EValue> inputs{EValue(*tokens_tensor)};
  if (signature_ == Signature::kLogits) inputs.emplace_back(*position_tensor);
  const auto outputs = program_->execute(method_, inputs);
  if (!outputs.ok()) {
    return Status::error("the method " + method_ + " failed at position " +
                         std::to_string(start_pos) + ": " + outputs.message());
  }
  if (outputs->size() != 1 || !outputs->front().isTensor() ||
      outputs->front().toTensor().numel() != width_) {
    return Status::error("the output of the method " + method_ + " is not (1, " +
                         std::to_string(width_) + "): export it with thimble-export");
  }
  return outputs->front().toTensor().const_data_ptr<float>();
}

}  // namespace thimble
