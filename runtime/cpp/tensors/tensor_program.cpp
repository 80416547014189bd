#include "tensors/tensor_program.h"

#include <executorch/extension/tensor/tensor.h>

#include <cstring>
#include <utility>

#include "model/open_program.h"

namespace thimble {
namespace {

using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

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

Result<std::unique_ptr<TensorProgram>> TensorProgram::open(Result<PteFile> file,
                                                           const LoadOptions& options) {
  if (!file.ok()) return file.status();
  std::unique_ptr<TensorProgram> program(new TensorProgram(std::move(*file)));
  Result<std::shared_ptr<OpenProgram>> opened = OpenProgram::open(program->file_, options);
  if (!opened.ok()) return opened.status();
  program->program_ = std::move(*opened);
  const Status status = program->read_methods();
  if (!status.ok()) return status;
  return program;
}

int32_t TensorProgram::threads() const { return program_->threads(); }

Recorder& TensorProgram::recorder() { return program_->recorder(); }

std::string_view TensorProgram::named_data(const char* name) { return program_->named_data(name); }

Status TensorProgram::read_methods() {
  Result<std::vector<MethodSignature>> methods =
      read_signatures(program_->named_data(kSignature), file_.path());
  if (!methods.ok()) return methods.status();
  methods_ = std::move(*methods);
  for (const MethodSignature& method : methods_) {
    const auto meta = program_->meta(method.name);
    if (!meta || meta->num_inputs() != method.inputs.size() ||
        meta->num_outputs() != method.outputs.size()) {
      return Status::error(file_.path() + " has no method " + method.name +
                           " of its signature: export it again");
    }
  }
  return {};
}

Result<const MethodSignature*> TensorProgram::find(const std::string& name) const {
  std::string names;
  for (const MethodSignature& method : methods_) {
    if (method.name == (name.empty() ? kForward : name)) return &method;
    names += (names.empty() ? "" : ", ") + method.name;
  }
  if (name.empty()) return &methods_.front();
  return Status::error(file_.path() + " has no method " + name + ": it has " + names);
}

Status TensorProgram::load(const MethodSignature& method) { return program_->load(method.name); }

Result<std::vector<Tensor>> TensorProgram::run(const MethodSignature& method,
                                               const std::vector<TensorView>& inputs) {
  const Result<std::vector<TensorView>> ordered = in_order(method, inputs);
  if (!ordered.ok()) return ordered.status();
  Status status = check_inputs(method, *ordered);
  if (status.ok()) status = load(method);
  if (!status.ok()) return status;

  const Arguments arguments(method, *ordered);
  const Recorder::Call call(recorder(), "run", 1, method.name);
  const auto values = program_->execute(method.name, arguments.values());
  if (!values.ok()) {
    return Status::error("the method " + method.name + " of " + file_.path() +
                         " failed: " + values.message());
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < values->size() && i < method.outputs.size(); ++i) {
    const TensorSpec& spec = method.outputs[i];
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

Status TensorProgram::reset(const MethodSignature& method) { return program_->reload(method.name); }

}  // namespace thimble
