/// The llama:: operators as ExecuTorch calls them: what they write, and what they refuse.

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "llama_ops/llama_ops.h"
#include "model/log_capture.h"
#include "tests/cases.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::extension::full;
using executorch::extension::make_tensor_ptr;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using test::expect;

using Shape = std::vector<executorch::aten::SizesType>;

/// Calls the operator; what it logged if it failed, else "".
std::string call(const char* name, std::vector<EValue> arguments) {
  std::vector<EValue*> stack;
  for (EValue& argument : arguments) stack.push_back(&argument);
  executorch::extension::MallocMemoryAllocator memory;
  executorch::runtime::KernelRuntimeContext context(nullptr, &memory);
  const LogCapture log;
  for (const auto& kernel : llama_kernels()) {
    if (std::string(kernel.name_) == name) kernel.op_(context, {stack.data(), stack.size()});
  }
  if (context.failure_state() == Error::Ok) return "";
  return log.error().empty() ? "failed without a word" : log.error();
}

TensorPtr ramp(const Shape& shape) {
  const int count = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<int>());
  std::vector<float> data(static_cast<size_t>(count));
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::sin(static_cast<float>(i));
  return make_tensor_ptr(shape, std::move(data));
}

/// What a call of custom_sdpa takes; a case changes one thing.
struct Sdpa {
  TensorPtr query = ramp({1, 3, 4, 8});
  TensorPtr key = ramp({1, 16, 2, 8});
  TensorPtr value = ramp({1, 16, 2, 8});
  int64_t start_pos = 2;
  EValue attn_mask;
  double dropout = 0.0;
  bool is_causal = true;
  TensorPtr out = ramp({1, 3, 4, 8});

  std::string run() const {
    return call("llama::custom_sdpa.out",
                {EValue(*query), EValue(*key), EValue(*value), EValue(start_pos), attn_mask,
                 EValue(dropout), EValue(is_causal), EValue(), EValue(*out)});
  }
};

bool refuses(const Sdpa& sdpa, const std::string& sentence) {
  const std::string said = sdpa.run();
  if (said.find(sentence) != std::string::npos) return true;
  std::fprintf(stderr, "expected '%s', got '%s'\n", sentence.c_str(), said.c_str());
  return false;
}

bool sdpa_reads_no_key_past_the_call() {
  Sdpa whole, cut;
  float* key = cut.key->mutable_data_ptr<float>();
  float* value = cut.value->mutable_data_ptr<float>();
  for (int i = 5 * 16; i < 16 * 16; ++i) {
    key[i] = value[i] = std::numeric_limits<float>::quiet_NaN();
  }
  bool passed = expect(whole.run().empty() && cut.run().empty(), "both calls to pass");
  for (int i = 0; i < 3 * 4 * 8; ++i) {
    const float expected = whole.out->const_data_ptr<float>()[i];
    passed = passed && expect(cut.out->const_data_ptr<float>()[i] == expected, "equal outputs");
  }
  return passed;
}

bool sdpa_refuses_what_does_not_fit() {
  Sdpa bad;
  bad.start_pos = 14;
  bool passed = refuses(bad, "3 positions from 14 do not fit a cache of 16");
  bad.start_pos = -1;
  passed = refuses(bad, "3 positions from -1 do not fit a cache of 16") && passed;
  bad.start_pos = std::numeric_limits<int64_t>::max();
  passed = refuses(bad, "do not fit a cache of 16") && passed;
  bad = Sdpa();
  bad.query = ramp({1, 3, 5, 8});
  passed = refuses(bad, "5 query heads is not a multiple of 2 key/value heads") && passed;
  bad = Sdpa();
  bad.value = ramp({1, 16, 2, 4});
  passed = refuses(bad, "key and value differ in shape") && passed;
  bad = Sdpa();
  bad.query = ramp({1, 3, 4, 4});
  passed = refuses(bad, "query and key differ in batch or head_dim") && passed;
  bad = Sdpa();
  bad.out = ramp({1, 2, 4, 8});
  return refuses(bad, "Attempted to resize a bounded tensor") && passed;
}

/// A mask over keys up to its position, in a tensor with room for more.
bool sdpa_takes_a_mask() {
  const TensorPtr mask = full({3, 7}, 0, ScalarType::Float);
  for (int i = 0; i < 3 * 7; ++i) {
    const bool seen = i % 7 <= 2 + i / 7;
    if (!seen) mask->mutable_data_ptr<float>()[i] = -std::numeric_limits<float>::infinity();
  }
  Sdpa causal, masked;
  masked.is_causal = false;
  masked.attn_mask = EValue(*mask);
  bool passed = expect(causal.run().empty() && masked.run().empty(), "both calls to pass");
  for (int i = 0; i < 3 * 4 * 8; ++i) {
    const float expected = causal.out->const_data_ptr<float>()[i];
    passed = passed && expect(masked.out->const_data_ptr<float>()[i] == expected, "equal outputs");
  }
  return passed;
}

bool sdpa_refuses_other_masks() {
  constexpr const char* kSentence =
      "attn_mask must be a contiguous float32 tensor of 3 positions and at least 5 keys";
  bool passed = true;
  for (const TensorPtr& mask : {ramp({3, 4}), ramp({2, 5}), ramp({15}), ramp({1, 3, 5}),
                                full({3, 5}, 1, ScalarType::Half)}) {
    Sdpa bad;
    bad.is_causal = false;
    bad.attn_mask = EValue(*mask);
    passed = refuses(bad, kSentence) && passed;
  }
  Sdpa bad;
  const TensorPtr mask = ramp({3, 5});
  bad.attn_mask = EValue(*mask);
  return refuses(bad, "attn_mask and is_causal exclude each other: leave one out") && passed;
}

bool sdpa_refuses_what_it_does_not_do() {
  Sdpa bad;
  bool passed = true;
  bad.dropout = 0.5;
  passed = refuses(bad, "dropout is 0.500000, but must be 0") && passed;
  bad = Sdpa();
  bad.key = full({1, 16, 2, 8}, 1, ScalarType::Half);
  passed = refuses(bad, "must be contiguous float32 tensors of 4 dimensions") && passed;
  bad = Sdpa();
  bad.query = ramp({3, 4, 8});
  return refuses(bad, "must be contiguous float32 tensors of 4 dimensions") && passed;
}

std::string update(const TensorPtr& value, const TensorPtr& cache, int64_t start_pos) {
  const TensorPtr out = ramp({1});
  return call("llama::update_cache.out",
              {EValue(*value), EValue(*cache), EValue(start_pos), EValue(*out)});
}

/// Large enough for several threads, and two sequences.
bool update_writes_its_positions_and_no_other() {
  constexpr int kSequences = 2, kLen = 300, kCache = 400, kRow = 512, kStart = 77;
  const TensorPtr value = ramp({kSequences, kLen, 2, kRow / 2});
  const TensorPtr cache = full({kSequences, kCache, 2, kRow / 2}, -2, ScalarType::Float);
  bool passed = expect(update(value, cache, kStart).empty(), "the call to pass");
  for (int i = 0; passed && i < kSequences * kCache * kRow; ++i) {
    const int position = i / kRow % kCache - kStart;
    const bool inside = position >= 0 && position < kLen;
    const int from = (i / kRow / kCache * kLen + position) * kRow + i % kRow;
    const float expected = inside ? value->const_data_ptr<float>()[from] : -2.0f;
    passed = expect(cache->const_data_ptr<float>()[i] == expected, "the value or the old cache");
  }
  return passed;
}

bool update_refuses_what_does_not_fit() {
  const TensorPtr cache = ramp({1, 8, 2, 4});
  const auto says = [](const std::string& said, const char* sentence) {
    if (said.find(sentence) == std::string::npos) std::fprintf(stderr, "got '%s'\n", said.c_str());
    return expect(said.find(sentence) != std::string::npos, sentence);
  };
  return says(update(ramp({1, 3, 2, 4}), cache, 6), "3 positions from 6 do not fit a cache of 8") &&
         says(update(ramp({1, 3, 2, 4}), cache, -1),
              "3 positions from -1 do not fit a cache of 8") &&
         says(update(ramp({1, 9, 2, 4}), cache, 0), "9 positions from 0 do not fit a cache of 8") &&
         says(update(ramp({1, 3, 1, 4}), cache, 0), "differ in batch, heads or head_dim") &&
         says(update(full({1, 3, 2, 4}, 1, ScalarType::Half), cache, 0),
              "must be contiguous float32 tensors of 4 dimensions");
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  using namespace thimble;
  static const test::Case kCases[] = {
      {"sdpa_reads_no_key_past_the_call", sdpa_reads_no_key_past_the_call},
      {"sdpa_refuses_what_does_not_fit", sdpa_refuses_what_does_not_fit},
      {"sdpa_takes_a_mask", sdpa_takes_a_mask},
      {"sdpa_refuses_other_masks", sdpa_refuses_other_masks},
      {"sdpa_refuses_what_it_does_not_do", sdpa_refuses_what_it_does_not_do},
      {"update_writes_its_positions_and_no_other", update_writes_its_positions_and_no_other},
      {"update_refuses_what_does_not_fit", update_refuses_what_does_not_fit},
  };
  return test::run_cases(kCases, argc, argv);
}
