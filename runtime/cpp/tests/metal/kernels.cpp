// The kernels' source, compiled for the processor, and their calls.

#include "tests/metal/kernels.h"

#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels.metal"  // the text that is compiled on a device; needs the shim's metal_stdlib

#undef kernel
#undef device
#undef constant
#undef thread
#undef threadgroup

namespace thimble::test {
namespace {

/// Fills a kernel's parameters in their order: pointers are buffers, up to the reference that is
/// its constants, then the threadgroup's memory; then where the thread is.
class Filler {
 public:
  Filler(void* const* buffers, const void* constants, const metal_shim::ThreadPosition& position,
         void* memory)
      : buffers_(buffers), constants_(constants), position_(position), memory_(memory) {}

  template <typename Parameter>
  Parameter next() {
    if constexpr (std::is_reference_v<Parameter>) {
      has_constants_ = true;
      return *static_cast<const std::remove_reference_t<Parameter>*>(constants_);
    } else if constexpr (std::is_pointer_v<Parameter>) {
      return static_cast<Parameter>(has_constants_ ? memory_ : buffers_[buffer_++]);
    } else if constexpr (std::is_same_v<Parameter, ::metal::uint3>) {
      const ::metal::uint3 sizes{position_.threads, 1, 1};
      const ::metal::uint3 group{position_.group[0], position_.group[1], position_.group[2]};
      return std::exchange(has_group_, true) ? sizes : group;
    } else {
      static_assert(std::is_same_v<Parameter, ::metal::uint>, "a thread's index");
      return position_.thread;
    }
  }

 private:
  void* const* buffers_;
  const void* constants_;
  const metal_shim::ThreadPosition& position_;
  void* memory_;
  size_t buffer_ = 0;
  bool has_constants_ = false;
  bool has_group_ = false;
};

template <auto kKernel>
struct Call;

template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Call<kKernel> {
  static void run(void* const* buffers, const void* constants,
                  const metal_shim::ThreadPosition& position, void* memory) {
    Filler filler(buffers, constants, position, memory);
    std::tuple<Parameters...> parameters{filler.next<Parameters>()...};  // in order, by the braces
    std::apply(kKernel, std::move(parameters));
  }
  static constexpr size_t kPointers = (size_t{std::is_pointer_v<Parameters>} + ...);
  /// Threadgroup memory is volatile in the shim.
  static constexpr size_t kMemory = (size_t{std::is_pointer_v<Parameters> &&
                                            std::is_volatile_v<std::remove_pointer_t<Parameters>>} +
                                     ...);
};

template <auto kKernel>
constexpr ShimKernel entry(const char* name) {
  using This = Call<kKernel>;
  return {name, This::kPointers - This::kMemory, This::kMemory > 0, This::run};
}

/// In the order of metal::Kernel.
constexpr ShimKernel kKernels[] = {
    entry<embed_rows>("embed_rows"),
    entry<norm_rows>("norm_rows"),
    entry<rotate_rows>("rotate_rows"),
    entry<quantize_rows>("quantize_rows"),
    entry<add_rows>("add_rows"),
    entry<swiglu_rows>("swiglu_rows"),
    entry<matvec_int4_two_level>("matvec_int4_two_level"),
    entry<matvec_int5_two_level>("matvec_int5_two_level"),
    entry<matvec_int6_two_level>("matvec_int6_two_level"),
    entry<matvec_int4>("matvec_int4"),
    entry<matvec_int8>("matvec_int8"),
    entry<matvec_int8_groups>("matvec_int8_groups"),
    entry<matmul_int4_two_level>("matmul_int4_two_level"),
    entry<matmul_int5_two_level>("matmul_int5_two_level"),
    entry<matmul_int6_two_level>("matmul_int6_two_level"),
    entry<matmul_int4>("matmul_int4"),
    entry<matmul_int8>("matmul_int8"),
    entry<matmul_int8_groups>("matmul_int8_groups"),
    entry<float_linear>("float_linear"),
    entry<prepare_heads_float16>("prepare_heads_float16"),
    entry<prepare_heads_float32>("prepare_heads_float32"),
    entry<attention_float16>("attention_float16"),
    entry<attention_float32>("attention_float32"),
    entry<attention_split_float16>("attention_split_float16"),
    entry<attention_split_float32>("attention_split_float32"),
    entry<attention_merge>("attention_merge"),
};
static_assert(std::size(kKernels) == thimble::metal::kKernelCount);

}  // namespace

const ShimKernel& shim_kernel(thimble::metal::Kernel kernel) {
  return kKernels[static_cast<size_t>(kernel)];
}

std::string run_on_shim(const thimble::metal::Dispatch& dispatch, void* const* buffers,
                        metal_shim::Order order) {
  const ShimKernel& kernel = shim_kernel(dispatch.kernel);
  const thimble::metal::KernelShape& shape = thimble::metal::shape_of(dispatch.kernel);
  const std::string name = kernel.name;
  if (name != shape.name) return name + " is dispatched as " + shape.name;
  if (kernel.buffer_count != dispatch.buffer_count) {
    return name + " has " + std::to_string(kernel.buffer_count) + " buffers, and is given " +
           std::to_string(dispatch.buffer_count);
  }
  if (kernel.uses_memory != (shape.memory_bytes > 0)) return name + " lacks threadgroup memory";
  const metal_shim::Grid grid{{dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]},
                              shape.threads,
                              shape.memory_bytes};
  const std::string wrong = metal_shim::run_grid(
      grid, order, [&](const metal_shim::ThreadPosition& position, void* memory) {
        kernel.run(buffers, dispatch.constants, position, memory);
      });
  return wrong.empty() ? "" : name + ": " + wrong;
}

}  // namespace thimble::test
