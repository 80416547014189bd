#include "model/open_program.h"

#include <executorch/runtime/backend/options.h>

#include <algorithm>
#include <new>
#include <utility>

#include "model/log_capture.h"
#include "model/mapped_loader.h"
#include "model/method_delegates.h"

namespace thimble {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;

constexpr const char* kXnnpack = "XnnpackBackend";

Result<std::shared_ptr<OpenProgram>> OpenProgram::open(const PteFile& file,
                                                       const LoadOptions& options) {
  std::shared_ptr<OpenProgram> program(new OpenProgram(file, options));
  if (options.record) {
    Status started = program->recorder_.start({});
    if (!started.ok()) return started;
  }
  const Status opened = program->open();
  if (!opened.ok()) return opened;
  program->recorder_.note("model", file.path());
  program->recorder_.note("fingerprint", std::to_string(file.fingerprint()));
  return program;
}

Status OpenProgram::open() {
  LogCapture log;
  loader_ = std::make_unique<MappedLoader>(file_);
  auto program = Program::load(loader_.get(), Program::Verification::Minimal);
  if (!program.ok()) {
    return Status::error(file_.path() + " does not hold a program that ExecuTorch can load: " +
                         reason(program.error(), log) + ": export it again");
  }
  program_ = std::make_shared<Program>(std::move(*program));
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    const auto name = program_->get_method_name(i);
    const auto known = name.ok() ? meta(*name) : std::nullopt;
    if (!known) return Status::error(file_.path() + " is damaged: export it again");
    has_own_ = has_own_ || own_backend(*known) != nullptr;
    if (known->uses_backend(kXnnpack)) ++xnnpack_methods_;
    // ExecuTorch plans what a method keeps to itself in one buffer, what methods share in a second.
    if (known->num_memory_planned_buffers() > 1) sharing_.emplace_back(*name);
  }
  module_ = std::make_unique<executorch::extension::Module>(program_, nullptr, nullptr, nullptr,
                                                            nullptr, !sharing_.empty());
  return {};
}

std::optional<MethodMeta> OpenProgram::meta(const std::string& method) {
  const LogCapture quiet;
  auto known = program_->method_meta(method.c_str());
  return known.ok() ? std::optional<MethodMeta>(*known) : std::nullopt;
}

std::vector<std::string> OpenProgram::loaded_with(const std::string& method) {
  const bool shares = std::find(sharing_.begin(), sharing_.end(), method) != sharing_.end();
  return shares ? sharing_ : std::vector<std::string>{method};
}

Status OpenProgram::load(const std::string& method) {
  if (module_->is_method_loaded(method)) return {};
  for (const std::string& each : loaded_with(method)) {
    Status status = load_alone(each);
    if (!status.ok()) return status;
  }
  recorder_.note("threads", std::to_string(threads_));
  if (session_ != nullptr) recorder_.note("runs_with", session_->describe());
  return {};
}

Status OpenProgram::reload(const std::string& method) {
  for (const std::string& each : loaded_with(method)) (void)module_->unload_method(each);
  return load(method);
}

Status OpenProgram::start(const MethodMeta& meta) {
  if (!has_own_ && (options_.cache_type != THIMBLE_CACHE_DEFAULT || options_.huge_pages)) {
    return Status::error(file_.path() +
                         " does not run on the CPU delegate, the only one with options for "
                         "cache and huge pages: export with --delegate cpu, or leave them out");
  }
  const bool ours = own_backend(meta) != nullptr;
  if (ours && session_ == nullptr) {
    LoadOptions own = options_;
    if (!meta.uses_backend(THIMBLE_CPU_BACKEND)) own.threads = 1;  // which waits for the GPU
    Result<std::unique_ptr<SessionHandle>> session = SessionHandle::open(own);
    if (!session.ok()) return session.status();
    session_ = std::move(*session);
    threads_ = session_->threads();
  }
  if ((!ours || !is_one_instruction(meta)) && pool_ == nullptr) {
    pool_ = std::make_unique<ThreadPoolUse>(session_ == nullptr ? options_.threads : threads_);
    if (session_ == nullptr) threads_ = pool_->threads();
  }
  return {};
}

Status OpenProgram::load_alone(const std::string& method) {
  LogCapture log;
  const std::optional<MethodMeta> known = meta(method);
  if (!known) return Status::error(file_.path() + " has no method " + method);
  const Result<std::string> delegates = delegates_of(*known, file_.path());
  if (!delegates.ok()) return delegates.status();
  Status status = start(*known);
  if (!status.ok()) return status;

  const char* own = own_backend(*known);
  executorch::runtime::BackendOptions<1> session_option, weights_option;
  executorch::runtime::LoadBackendOptionsMap backend_options;
  if (xnnpack_methods_ > 1) {
    (void)weights_option.set_option("weight_cache_enabled", true);
    (void)backend_options.set_options(kXnnpack, weights_option.view());
  }
  if (own != nullptr) {
    (void)session_option.set_option(THIMBLE_SESSION_OPTION, session_->id());
    (void)backend_options.set_options(own, session_option.view());
  }
  const Error error = module_->load_method(method, nullptr, recorder_.tracer(), &backend_options,
                                           operator_kernels());
  if (error == Error::Ok) return {};
  return Status::error("cannot load the method " + method + " of " + file_.path() + ": " +
                       advice(error, log, own != nullptr, false));
}

Result<std::vector<EValue>> OpenProgram::execute(const std::string& method,
                                                 const std::vector<EValue>& inputs) {
  LogCapture log;
  auto outputs = module_->execute(method, inputs);
  if (!outputs.ok()) {
    return Status::error(advice(outputs.error(), log, session_ != nullptr, !inputs.empty()));
  }
  return std::move(*outputs);
}

// Without memory the numbers are not known: none of them may be taken to be absent.
std::vector<EValue> OpenProgram::returned(const std::string& method) {
  LogCapture quiet;
  const std::optional<MethodMeta> known = meta(method);
  if (!known || known->num_inputs() > 0) return {};
  auto outputs = module_->execute(method);
  if (outputs.ok()) return std::move(*outputs);
  if (outputs.error() == Error::MemoryAllocationFailed) throw std::bad_alloc();
  return {};
}

std::vector<int64_t> OpenProgram::constants(const std::string& method) {
  std::vector<int64_t> numbers;
  for (const EValue& value : returned(method)) {
    if (value.isInt()) numbers.push_back(value.toInt());
  }
  return numbers;
}

std::optional<double> OpenProgram::number(const std::string& method) {
  const std::vector<EValue> values = returned(method);
  if (values.size() != 1) return std::nullopt;
  const EValue& value = values.front();
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (value.isDouble()) return value.toDouble();
  return std::nullopt;
}

std::vector<std::string> OpenProgram::method_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    const auto name = program_->get_method_name(i);
    if (name.ok()) names.emplace_back(*name);
  }
  return names;
}

std::string_view OpenProgram::named_data(const char* name) {
  LogCapture quiet;
  const auto map = program_->get_named_data_map();
  if (!map.ok()) return {};
  auto blob = (*map)->get_data(name);
  if (!blob.ok()) return {};
  const std::string_view bytes(static_cast<const char*>(blob->data()), blob->size());
  blobs_.push_back(std::move(*blob));
  return bytes;
}

}  // namespace thimble
