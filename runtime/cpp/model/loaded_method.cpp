#include "model/loaded_method.h"

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <utility>

#include "model/log_capture.h"
#include "model/mapped_loader.h"
#include "model/method_delegates.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;

}  // namespace

Result<std::unique_ptr<LoadedMethod>> LoadedMethod::load(const PteFile& file,
                                                         const std::string& method,
                                                         const LoadOptions& options,
                                                         Signature signature) {
  std::unique_ptr<LoadedMethod> program(new LoadedMethod(file, method, signature));
  if (options.record) {
    Status started = program->recorder_.start({});
    if (!started.ok()) return started;
  }
  LogCapture log;
  program->module_ =
      std::make_unique<executorch::extension::Module>(std::make_unique<MappedLoader>(file));
  const Error error = program->module_->load();
  if (error != Error::Ok) {
    return Status::error(file.path() + " does not hold a program that ExecuTorch can load: " +
                         reason(error, log) + ": export it again");
  }
  Status status = program->read_constants();
  if (status.ok()) status = program->load_method(options);
  if (!status.ok()) return status;
  program->note_facts();
  return program;
}

void LoadedMethod::note_facts() {
  recorder_.note("model", file_.path());
  recorder_.note("fingerprint", std::to_string(file_.fingerprint()));
  recorder_.note("threads", std::to_string(threads_));
  if (session_ != nullptr) recorder_.note("runs_with", session_->describe());
}

Status LoadedMethod::read_constant(const char* name, int64_t* value) {
  LogCapture log;
  const auto outputs = module_->execute(name);
  if (outputs.ok() && outputs->size() == 1 && outputs->front().isInt()) {
    *value = outputs->front().toInt();
    if (*value > 0) return {};
  }
  return Status::error(file_.path() + " has no positive number " + name +
                       ": export it with python -m exporter");
}

Status LoadedMethod::read_constants() {
  const std::pair<const char*, int64_t*> numbers[] = {{"get_max_seq_len", &max_seq_len_},
                                                      {"get_max_context_len", &max_context_len_},
                                                      {"get_vocab_size", &vocab_size_}};
  for (const auto& [name, value] : numbers) {
    Status status = read_constant(name, value);
    if (!status.ok()) return status;
  }
  LogCapture log;
  read_sampling();
  const auto eos_ids = module_->execute("get_eos_ids");
  if (!eos_ids.ok()) return {};
  for (const EValue& id : *eos_ids) {
    if (id.isInt()) eos_ids_.push_back(static_cast<int32_t>(id.toInt()));
  }
  return {};
}

void LoadedMethod::read_sampling() {
  constexpr std::string_view kPrefix = "get_sampling_";  // as exporter/file/report.py
  const auto names = module_->method_names();
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    const auto outputs = module_->execute(name);
    if (!outputs.ok() || outputs->size() != 1) continue;
    const EValue& value = outputs->front();
    const std::string option = name.substr(kPrefix.size());
    if (value.isInt()) sampling_[option] = static_cast<double>(value.toInt());
    if (value.isDouble()) sampling_[option] = value.toDouble();
  }
}

Status LoadedMethod::no_method() const {
  return Status::error(file_.path() + " has no method " + method_ +
                       "(tokens, input_pos) -> logits: export it with python -m exporter");
}

/// Of a file whose method is as another command has it.
Status LoadedMethod::other_signature(const MethodMeta& meta) const {
  if (signature_ == Signature::kLogits && meta.num_inputs() == 1) {
    return Status::error(file_.path() +
                         " embeds texts and generates none: use runner --embed, or Embedder in "
                         "Python");
  }
  if (signature_ == Signature::kRow && meta.num_inputs() == 2) {
    return Status::error(file_.path() +
                         " generates text and embeds none: use runner -p or --chat, or Runner in "
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

Status LoadedMethod::find_delegates(const MethodMeta& meta) {
  const Result<std::string> delegates = delegates_of(meta, file_.path());
  if (delegates.ok()) delegates_ = *delegates;
  return delegates.status();
}

/// Starts only the threads that the program will run on.
Status LoadedMethod::start(const LoadOptions& options, const MethodMeta& meta) {
  const bool ours = own_backend(meta) != nullptr;
  if (!ours && (options.cache_type != THIMBLE_CACHE_DEFAULT || options.huge_pages)) {
    return Status::error(
        file_.path() +
        " does not run on the CPU delegate, the only one with options for "
        "cache and huge pages: export it with --delegate cpu, or leave out the options");
  }
  if (ours) {
    LoadOptions own = options;
    if (!meta.uses_backend(THIMBLE_CPU_BACKEND)) own.threads = 1;  // which waits for the GPU
    Result<std::unique_ptr<SessionHandle>> session = SessionHandle::open(own);
    if (!session.ok()) return session.status();
    session_ = std::move(*session);
    threads_ = session_->threads();
  }
  runs_segments_ = meta.uses_backend(THIMBLE_CPU_BACKEND) && meta.num_instructions() == 1;
  // One instruction: the delegate's call is the whole program.
  if (!ours || meta.num_instructions() > 1) {
    pool_ = std::make_unique<ThreadPoolUse>(ours ? threads_ : options.threads);
    if (!ours) threads_ = pool_->threads();
  }
  return {};
}

Status LoadedMethod::load_method(const LoadOptions& options) {
  LogCapture log;
  const auto meta = module_->method_meta(method_);
  Status status = meta.ok() ? check_signature(*meta) : no_method();
  if (status.ok()) status = find_delegates(*meta);
  if (status.ok()) status = start(options, *meta);
  if (!status.ok()) return status;

  executorch::runtime::BackendOptions<1> session_option;
  executorch::runtime::LoadBackendOptionsMap backend_options;
  if (session_ != nullptr) {
    (void)session_option.set_option(THIMBLE_SESSION_OPTION, session_->id());
    (void)backend_options.set_options(own_backend(*meta), session_option.view());
  }
  const Error error = module_->load_method(method_, nullptr, recorder_.tracer(), &backend_options,
                                           operator_kernels());
  if (error == Error::Ok) {
    if (session_ != nullptr) original_context_ = session_->original_context();
    return {};
  }
  return Status::error("cannot load the method " + method_ + " of " + file_.path() + ": " +
                       advice(error, log, session_ != nullptr));
}

std::string_view LoadedMethod::named_data(const char* name) {
  LogCapture log;
  const auto map = module_->program()->get_named_data_map();
  if (!map.ok()) return {};
  auto blob = (*map)->get_data(name);
  if (!blob.ok()) return {};
  const std::string_view bytes(static_cast<const char*>(blob->data()), blob->size());
  blobs_.push_back(std::move(*blob));
  return bytes;
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
  const Status status = session_->ask_for(segments, &logits_);
  if (!status.ok()) return status;
  const Result<const float*> last =
      execute(tokens, segments.front().start_pos, decodes ? "decode" : "prefill");
  return last.ok() ? Result<const float*>(logits_.data()) : last;
}

Result<const float*> LoadedMethod::execute(const std::vector<int64_t>& tokens, int64_t start_pos,
                                           const char* phase) {
  LogCapture log;
  const auto tokens_tensor =
      executorch::extension::from_blob(const_cast<int64_t*>(tokens.data()),
                                       {1, static_cast<int32_t>(tokens.size())}, ScalarType::Long);
  const auto position_tensor = executorch::extension::from_blob(&start_pos, {1}, ScalarType::Long);
  const Recorder::Call call(recorder_, phase, static_cast<int64_t>(tokens.size()));
  std::vector<EValue> inputs{EValue(*tokens_tensor)};
  if (signature_ == Signature::kLogits) inputs.emplace_back(*position_tensor);
  const auto outputs = module_->execute(method_, inputs);
  if (!outputs.ok()) {
    return Status::error("the method " + method_ + " failed at position " +
                         std::to_string(start_pos) + ": " +
                         advice(outputs.error(), log, session_ != nullptr));
  }
  if (outputs->size() != 1 || !outputs->front().isTensor() ||
      outputs->front().toTensor().numel() != width_) {
    return Status::error("the output of the method " + method_ + " is not (1, " +
                         std::to_string(width_) + "): export it with python -m exporter");
  }
  return outputs->front().toTensor().const_data_ptr<float>();
}

}  // namespace thimble
