// Dense convolutions that read windows where they lie: the bits of those that copy them first.

#include "kernels/select/cpu_features.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::convolving_test {
namespace {

using test::expect;
using test::same_bits;

constexpr uint32_t kColumns = 20;

/// A dense convolution of a picture in rows.
class ConvolvingModel : public test::ProgramBuilder {
 public:
  /// \param copies whether windows are copied before they are multiplied.
  ConvolvingModel(bool copies, kernels::Function activation) {
    program.by_sample = true;
    const uint32_t picture = add(kColumns, 35), output = add(kColumns, 30);
    cpu::LinearOp product = linear(
        picture, output, add_weight(kColumns, kColumns * 6, kernels::WeightFormat::kFloat32));
    product.bias = add_floats(kColumns, 0, 1);
    product.activation = activation;
    program.inputs = {{cpu::Role::kRows, picture}};
    if (copies) {
      product.input = add(kColumns * 6, 30);
      add_op(cpu::PatchesOp{picture, product.input, false, kRows});
    } else {
      product.window = kRows;
    }
    add_op(product);
    program.outputs = {{cpu::Role::kRows, output}};
  }

  std::vector<float> run(const std::vector<float>& pictures, size_t samples,
                         const kernels::Variant& kernels, int32_t threads) const {
    test::LoadedModel loaded(*this, kernels, threads);
    std::vector<float> output(samples * 30 * kColumns);
    cpu::Call call;
    call.rows = samples;
    call.segments.assign(samples, {0, 0, 1});
    call.inputs = {pictures.data()};
    call.outputs = {output.data()};
    const bool ran = loaded.executor().check(call).ok() && loaded.executor().run(call).ok();
    return ran ? output : std::vector<float>();
  }

 private:
  static constexpr cpu::Window kRows{{5, 3, 1, 3, 2, 6}, {7, 2, 2, 2, 1, 5}};

  uint32_t add(size_t width, size_t height) {
    const uint32_t slot = add_slot(width);
    program.slots[slot].height = height;
    return slot;
  }
};

bool windows_are_multiplied_where_they_are() {
  test::Numbers numbers(9);
  std::vector<float> pictures(9 * 35 * kColumns);
  for (float& number : pictures) number = numbers.real();
  for (const auto function : {kernels::Function::kAdd, kernels::Function::kRelu,
                              kernels::Function::kRelu6, kernels::Function::kGelu}) {
    const ConvolvingModel copying(true, function), reading(false, function);
    const std::vector<float> expected = copying.run(pictures, 9, kernels::scalar::kVariant, 1);
    if (!expect(!expected.empty(), "windows that are copied")) return false;
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 3}) {
        for (const size_t samples : {size_t{1}, size_t{9}}) {  // few rows, and tiles of them
          const std::vector<float> wanted(expected.begin(),
                                          expected.begin() + samples * 30 * kColumns);
          if (!expect(same_bits(reading.run(pictures, samples, *variant, threads), wanted),
                      variant->name))
            return false;
        }
      }
    }
  }
  return true;
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { std::get<cpu::LinearOp>(p->ops[0].kind).window.vertical.size = 4; },
     "has a picture of 28 numbers"},
    {[](cpu::Program* p) { std::get<cpu::LinearOp>(p->ops[0].kind).window.vertical.kernel = 2; },
     "has windows of 20 channels"},
    {[](cpu::Program* p) { std::get<cpu::LinearOp>(p->ops[0].kind).window.horizontal.kernel = 0; },
     "has a window of 0 numbers"},
    {[](cpu::Program* p) { std::get<cpu::LinearOp>(p->ops[0].kind).window.horizontal.output = 4; },
     "computes 24 rows of slot 1, which has 30"},
    {[](cpu::Program* p) { std::get<cpu::LinearOp>(p->ops[0].kind).norm = {0, kColumns * 6}; },
     "has windows of what it prepares"},
};

bool damaged_programs() {
  return test::all_are_refused(ConvolvingModel(false, kernels::Function::kAdd).program, kDamages);
}

const test::Suite suite("convolving", {{"windows_are_multiplied_where_they_are",
                                        windows_are_multiplied_where_they_are},
                                       {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::convolving_test
