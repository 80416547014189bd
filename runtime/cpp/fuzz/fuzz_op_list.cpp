/// The CPU delegate's programs (delegates/op_list/program.fbs). Those that are read and small run,
/// on weights of zeros.

#include <utility>

#include "fuzz/flatbuffer_mutator.h"
#include "fuzz/input.h"
#include "tests/delegate/run_on_zeros.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  Result<cpu::Program> program = cpu::read_program(data, size);
  if (!program.ok()) {
    require(!program.message().empty());
    return 0;
  }
  if (!test::is_small(*program)) return 0;
  (void)test::run_on_zeros(std::move(*program));
  return 0;
}
