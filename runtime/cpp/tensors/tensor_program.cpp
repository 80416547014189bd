#include "tensors/tensor_program.h"

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <cstring>
#include <utility>

#include "model/log_capture.h"
#include "model/mapped_loader.h"
#include "model/method_delegates.h"

namespace thimble {
namespace {

using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

constexpr const char* kMethod = "forward";

/// float32 elements as bfloat16.
std::vector<uint8_t> rounded(const TensorView& given) {
  const auto count = static_cast<size_t>(element_count(given.shape));
  std::vector<uint8_t> halves(2 * count);
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, static_cast<const uint8_t*>(given.data) + sizeof(float) * i, sizeof(float));
    const uint16_t half = to_bfloat16(value);
    std::memcpy(halves.data() + 2 * i, &half, sizeof(half));
  }
  return halves;
}

/// What a method is called with: ExecuTorch's tensors over memory that it only reads.
class Arguments {
 public:
  Arguments(const MethodSignature& signature, const std::vector<TensorView>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ElementType& type = *signature.inputs[i].type;
      const void* data = inputs[i].data;
      if (inputs[i].type != &type) {
        converted_.push_back(rounded(inputs[i]));
        data = converted_.back().data();
      }
      std::vector<executorch::aten::SizesType> sizes(inputs[i].shape.begin(),
                                                     inputs[i].shape.end());
      tensors_.push_back(
          executorch::extension::from_blob(const_cast<void*>(data), std::move(sizes), type.scalar));
      values_.emplace_back(*tensors_.back());
    }
  }

  const std::vector<EValue>& values() const { return values_; }

 private:
  std::vector<std::vector<uint8_t>> converted_;
  std::vector<TensorPtr> tensors_;
  std::vector<EValue> values_;
};

}  // namespace

Result<std::unique_ptr<TensorProgram>> TensorProgram::load(Result<PteFile> file,
                                                           const LoadOptions& options) {
  if (!file.ok()) return file.status();
  std::unique_ptr<TensorProgram> program(new TensorProgram(std::move(*file)));
  if (options.record) {
    Status started = program->recorder_.start({});
    if (!started.ok()) return started;
  }
  Status status = program->open();
  if (status.ok()) status = program->start(options);
  if (status.ok()) status = program->load_method();
  if (!status.ok()) return status;
  program->recorder_.note("model", program->file_.path());
  program->recorder_.note("fingerprint", std::to_string(program->file_.fingerprint()));
  program->recorder_.note("threads", std::to_string(program->threads_));
  return program;
}

Status TensorProgram::open() {
  LogCapture log;
  module_ = std::make_unique<executorch::extension::Module>(std::make_unique<MappedLoader>(file_));
  const Error error = module_->load();
  if (error != Error::Ok) {
    return Status::error(file_.path() + " does not hold a program that ExecuTorch can load: " +
                         reason(error, log) + ": export it again");
  }
  std::string_view bytes;
  const auto map = module_->program()->get_named_data_map();
  auto blob =
      map.ok() ? (*map)->get_data(kSignature)
               : executorch::runtime::Result<executorch::runtime::FreeableBuffer>(Error::NotFound);
  if (blob.ok()) bytes = {static_cast<const char*>(blob->data()), blob->size()};
  Result<MethodSignature> signature = read_signature(bytes, kMethod, file_.path());
  if (signature.ok()) signature_ = std::move(*signature);
  return signature.status();
}

/// Starts only the threads that the program will run on.
Status TensorProgram::start(const LoadOptions& options) {
  const auto meta = module_->method_meta(kMethod);
  if (!meta.ok() || meta->num_inputs() != signature_.inputs.size() ||
      meta->num_outputs() != signature_.outputs.size()) {
    return Status::error(file_.path() + " has no method " + kMethod +
                         " of its signature: export it again");
  }
  const Result<std::string> delegates = delegates_of(*meta, file_.path());
  if (!delegates.ok()) return delegates.status();
  if (own_backend(*meta) != nullptr) {
    Result<std::unique_ptr<SessionHandle>> session = SessionHandle::open(options);
    if (!session.ok()) return session.status();
    session_ = std::move(*session);
    threads_ = session_->threads();
  }
  if (session_ == nullptr || meta->num_instructions() > 1) {
    pool_ = std::make_unique<ThreadPoolUse>(session_ == nullptr ? options.threads : threads_);
    if (session_ == nullptr) threads_ = pool_->threads();
  }
  return {};
}

Status TensorProgram::load_method() {
  LogCapture log;
  executorch::runtime::BackendOptions<1> session_option;
  executorch::runtime::LoadBackendOptionsMap backend_options;
  const auto meta = module_->method_meta(kMethod);
  if (session_ != nullptr && meta.ok()) {
    (void)session_option.set_option(THIMBLE_SESSION_OPTION, session_->id());
    (void)backend_options.set_options(own_backend(*meta), session_option.view());
  }
  const Error error = module_->load_method(kMethod, nullptr, recorder_.tracer(), &backend_options,
                                           operator_kernels());
  if (error == Error::Ok) return {};
  return Status::error("cannot load " + file_.path() + ": " +
                       advice(error, log, session_ != nullptr));
}

Result<std::vector<Tensor>> TensorProgram::run(const std::vector<TensorView>& inputs) {
  const Result<std::vector<TensorView>> ordered = in_order(signature_, inputs);
  if (!ordered.ok()) return ordered.status();
  const Status status = check_inputs(signature_, *ordered);
  if (!status.ok()) return status;

  const Arguments arguments(signature_, *ordered);
  LogCapture log;
  const Recorder::Call call(recorder_, "run", 1);
  const auto values = module_->execute(kMethod, arguments.values());
  if (!values.ok()) {
    return Status::error(file_.path() +
                         " failed: " + advice(values.error(), log, session_ != nullptr));
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < values->size() && i < signature_.outputs.size(); ++i) {
    const TensorSpec& spec = signature_.outputs[i];
    const EValue& value = (*values)[i];
    if (!value.isTensor() || value.toTensor().scalar_type() != spec.type->scalar) {
      return Status::error("the output " + spec.name + " of " + file_.path() + " is not " +
                           std::string(spec.type->name) + ": export it again");
    }
    const auto& tensor = value.toTensor();
    const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
    outputs.push_back({spec.type,
                       {tensor.sizes().begin(), tensor.sizes().end()},
                       {bytes, bytes + tensor.nbytes()}});
  }
  return outputs;
}

Status TensorProgram::reset() {
  LogCapture log;
  (void)module_->unload_method(kMethod);
  return load_method();
}

}  // namespace thimble
