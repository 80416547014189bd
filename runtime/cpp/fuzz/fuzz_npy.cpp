/// Files of numpy's, which programs of tensors read. What was read is written and read again.

#include "fuzz/input.h"
#include "tensors/npy.h"
#include "tensors/tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  static const InputFile given("given.npy"), written("written.npy");
  const Result<Tensor> tensor = read_npy(given.write(data, size));
  if (!tensor.ok()) {
    require(!tensor.message().empty());
    return 0;
  }
  if (tensor->type->numpy.empty()) return 0;
  const std::string& path = written.write(nullptr, 0);
  require(write_npy(path, tensor->view()).ok());
  const Result<Tensor> again = read_npy(path);
  require(again.ok() && again->shape == tensor->shape && again->data == tensor->data);
  return 0;
}
