#include "program/tensor_files.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint/json.h"
#include "platform/output_file.h"
#include "program/recording_signal.h"
#include "tensors/npy.h"
#include "tensors/tensor_program.h"

namespace thimble {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The place of each file's output in the signature.
Result<std::vector<size_t>> places(const std::vector<TensorSpec>& outputs,
                                   const std::vector<NamedFile>& files) {
  std::vector<size_t> order;
  std::string known;
  for (const TensorSpec& output : outputs) known += (known.empty() ? "" : ", ") + output.name;
  size_t next = 0;
  for (const NamedFile& file : files) {
    size_t place = file.name.empty() ? next++ : 0;
    while (!file.name.empty() && place < outputs.size() && outputs[place].name != file.name) {
      ++place;
    }
    if (place < outputs.size()) {
      order.push_back(place);
    } else if (file.name.empty()) {
      return Status::error(file.path + " is for an output too much: the program returns " + known);
    } else {
      return Status::error("there is no output " + file.name + ": the program returns " + known);
    }
  }
  return order;
}

}  // namespace

Status run_on_files(const Options& options, bool* began) {
  std::vector<Tensor> tensors;
  for (const NamedFile& file : options.inputs) {
    Result<Tensor> tensor = read_npy(file.path);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(std::move(*tensor));
  }
  for (const NamedFile& file : options.outputs) {
    const Status writable = platform::check_writable(file.path);
    if (!writable.ok()) return writable;
  }
  block_recording_signal();
  const Clock::time_point loading = Clock::now();
  Result<std::unique_ptr<TensorProgram>> opened =
      TensorProgram::open(PteFile::open(options.model, options.load.signer), options.load);
  if (!opened.ok()) return opened.status();
  TensorProgram& program = **opened;
  const Result<const MethodSignature*> signature = program.find(options.method);
  if (!signature.ok()) return signature.status();
  const MethodSignature& method = **signature;
  const Status loaded = program.load(method);
  if (!loaded.ok()) return loaded;
  const double load_s = seconds_since(loading);
  RecordingSignal signal(program.recorder(), options.etdump);
  const Result<std::vector<size_t>> where = places(method.outputs, options.outputs);
  if (!where.ok()) return where.status();
  std::vector<TensorView> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs.push_back(tensors[i].view(options.inputs[i].name));
  }
  const Result<std::vector<TensorView>> ordered = in_order(method, inputs);
  if (!ordered.ok()) return ordered.status();
  const Status fits = check_inputs(method, *ordered);
  if (!fits.ok()) return fits;

  *began = true;
  const Clock::time_point running = Clock::now();
  const Result<std::vector<Tensor>> outputs = program.run(method, inputs);
  const double run_s = seconds_since(running);
  if (!outputs.ok()) return outputs.status();
  for (size_t i = 0; i < where->size(); ++i) {
    const Status written = write_npy(options.outputs[i].path, (*outputs)[(*where)[i]].view());
    if (!written.ok()) return written;
  }
  const Status recorded = signal.finish();
  if (!recorded.ok()) return recorded;
  char line[128];
  std::snprintf(line, sizeof(line), ", \"load_s\": %.6f, \"run_s\": %.6f, \"threads\": %d}\n",
                load_s, run_s, program.threads());
  if (!options.json.empty()) {
    const Status written =
        platform::write_file(options.json, {"{\"method\": " + quoted_json(method.name) + line});
    if (!written.ok()) return written;
  }
  if (options.quiet) return {};
  std::fprintf(stderr, "runner: %s ran in %.1f ms, ready in %.0f ms, %d thread%s\n",
               method.name.c_str(), 1e3 * run_s, 1e3 * load_s, program.threads(),
               program.threads() == 1 ? "" : "s");
  return {};
}

}  // namespace thimble
