#include "c_interface/thimble_program.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c_interface/load_options.h"
#include "c_interface/shared.h"
#include "constraint/json.h"
#include "tensors/tensor_program.h"

struct thimble_program {
  std::shared_ptr<thimble::TensorProgram> file;  ///< of all handles of its methods
  const thimble::MethodSignature* method;        ///< of the file
  std::string signature;
  std::string methods;
  std::vector<thimble::Tensor> outputs;  ///< of the last run
};

namespace {

using thimble::given;
using thimble::guarded;
using thimble::report;
using thimble::run_guarded;
using thimble::Status;

thimble_program* handle_of(const std::shared_ptr<thimble::TensorProgram>& file,
                           const thimble::MethodSignature& method) {
  std::string names;
  for (const thimble::MethodSignature& each : file->methods()) {
    names += (names.empty() ? "" : ", ") + thimble::quoted_json(each.name);
  }
  auto handle = std::make_unique<thimble_program>();
  *handle = {file, &method, method.to_json(), "[" + names + "]", {}};
  return handle.release();
}

thimble_program* load(thimble::Result<thimble::PteFile> file, const thimble::LoadOptions& options,
                      char* error, size_t error_size) {
  auto opened = thimble::TensorProgram::open(std::move(file), options);
  if (report(opened.status(), error, error_size) != 0) return nullptr;
  const std::shared_ptr<thimble::TensorProgram> program = std::move(*opened);
  const auto method = program->find("");
  if (report(method.status(), error, error_size) != 0) return nullptr;
  // Of several, a caller may use others alone.
  if (program->methods().size() == 1) {
    if (report(program->load(**method), error, error_size) != 0) return nullptr;
  }
  return handle_of(program, **method);
}

/// What C passes as a tensor.
thimble::Result<thimble::TensorView> to_view(const thimble_tensor& tensor, size_t index) {
  const std::string name = tensor.name == nullptr ? "" : tensor.name;
  const std::string shown = "the input " + (name.empty() ? std::to_string(index) : name);
  const thimble::ElementType* type =
      tensor.type == nullptr ? nullptr : thimble::find_element_type(tensor.type);
  if (type == nullptr) {
    return Status::error(shown + " has the type " +
                         (tensor.type == nullptr ? "null" : tensor.type) +
                         ", but must have one of " + thimble::element_type_names());
  }
  if (tensor.rank < 0 || (tensor.rank > 0 && tensor.shape == nullptr)) {
    return Status::error(shown + " has no shape: give `rank` sizes");
  }
  thimble::Shape shape(tensor.shape, tensor.shape + tensor.rank);
  for (const int64_t size : shape) {
    if (size < 0 || size > INT32_MAX) {
      return Status::error(shown + " has the shape " + thimble::to_string(shape) +
                           ", but sizes must be from 0 to " + std::to_string(INT32_MAX));
    }
  }
  if (tensor.data == nullptr && thimble::element_count(shape) > 0) {
    return Status::error(shown + " has no data: it is null, but must not be");
  }
  return thimble::TensorView{name, type, std::move(shape), tensor.data};
}

}  // namespace

thimble_program* thimble_program_load(const char* path, const thimble_load_options* options,
                                      char* error, size_t error_size) {
  return thimble_program_load_signed(path, nullptr, options, error, error_size);
}

thimble_program* thimble_program_load_signed(const char* path, const char* public_key,
                                             const thimble_load_options* options, char* error,
                                             size_t error_size) {
  return guarded<thimble_program*>(nullptr, error, error_size, [&]() -> thimble_program* {
    const auto how = thimble::to_load(options, public_key);
    const Status right = thimble::first_error({given({{"path", path}}), how.status()});
    if (report(right, error, error_size) != 0) return nullptr;
    return load(thimble::PteFile::open(path, how->signer), *how, error, error_size);
  });
}

thimble_program* thimble_program_load_bytes(const void* data, size_t size, const char* name,
                                            const thimble_load_options* options, char* error,
                                            size_t error_size) {
  return guarded<thimble_program*>(nullptr, error, error_size, [&]() -> thimble_program* {
    const auto how = thimble::to_load(options, nullptr);
    const Status right =
        thimble::first_error({given({{"data", data}, {"name", name}}), how.status()});
    if (report(right, error, error_size) != 0) return nullptr;
    return load(thimble::PteFile::open(static_cast<const uint8_t*>(data), size, name), *how, error,
                error_size);
  });
}

thimble_program* thimble_program_method(const thimble_program* program, const char* name,
                                        char* error, size_t error_size) {
  return guarded<thimble_program*>(nullptr, error, error_size, [&]() -> thimble_program* {
    const Status right = given({{"program", program}, {"name", name}});
    if (report(right, error, error_size) != 0) return nullptr;
    const auto method = program->file->find(name);
    if (report(method.status(), error, error_size) != 0) return nullptr;
    return handle_of(program->file, **method);
  });
}

const char* thimble_program_methods(const thimble_program* program) {
  return program == nullptr ? "" : program->methods.c_str();
}

const char* thimble_program_signature(const thimble_program* program) {
  return program == nullptr ? "" : program->signature.c_str();
}

int thimble_program_run(thimble_program* program, const thimble_tensor* inputs, size_t count,
                        char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"program", program}, {"inputs", count == 0 || inputs != nullptr}});
    if (!right.ok()) return right;
    program->outputs.clear();
    std::vector<thimble::TensorView> views;
    for (size_t i = 0; i < count; ++i) {
      auto view = to_view(inputs[i], i);
      if (!view.ok()) return view.status();
      views.push_back(std::move(*view));
    }
    auto outputs = program->file->run(*program->method, views);
    if (outputs.ok()) program->outputs = std::move(*outputs);
    return outputs.status();
  });
}

size_t thimble_program_outputs(const thimble_program* program) {
  return program == nullptr ? 0 : program->outputs.size();
}

int thimble_program_output(const thimble_program* program, size_t index, thimble_tensor* output,
                           char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"program", program}, {"output", output}});
    if (!right.ok()) return right;
    if (index >= program->outputs.size()) {
      return Status::error("there is no output " + std::to_string(index) + ": the last run has " +
                           std::to_string(program->outputs.size()));
    }
    const thimble::Tensor& tensor = program->outputs[index];
    const thimble::TensorSpec& spec = program->method->outputs[index];
    *output = {spec.name.c_str(), tensor.type->name.data(), tensor.shape.data(),
               static_cast<int32_t>(tensor.shape.size()), tensor.data.data()};
    return {};
  });
}

int thimble_program_reset(thimble_program* program, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"program", program}});
    return right.ok() ? program->file->reset(*program->method) : right;
  });
}

int thimble_program_start_recording(thimble_program* program, int64_t max_calls, int64_t max_bytes,
                                    char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"program", program}});
    if (!right.ok()) return right;
    return thimble::start_recording(program->file->recorder(), max_calls, max_bytes);
  });
}

int thimble_program_stop_recording(thimble_program* program, const char* path,
                                   thimble_recording* recording, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"program", program}, {"path", path}, {"recording", recording}});
    if (!right.ok()) return right;
    return thimble::stop_recording(program->file->recorder(), program->file->file(), path,
                                   recording);
  });
}

void thimble_program_free(thimble_program* program) { delete program; }
