// The executor on a random model: the same bits however the work is cut up.

#include <cmath>
#include <cstring>

#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::executor_test {
namespace {

using test::expect;
using test::LoadedModel;
using test::RandomModel;
using test::same_bits;

/// Logits after each of several calls that follow one another.
std::vector<float> run_calls(LoadedModel* model, const std::vector<size_t>& lengths) {
  size_t total = 0;
  for (const size_t length : lengths) total += length;
  const std::vector<int64_t> tokens = test::random_tokens(total);
  std::vector<float> all;
  auto next = tokens.begin();
  for (const size_t length : lengths) {
    const auto start = next - tokens.begin();
    const std::vector<float> logits = model->run({next, next + length}, start);
    all.insert(all.end(), logits.begin(), logits.end());
    next += length;
  }
  return all;
}

const std::vector<size_t> kLengths = {13, 1, 1, 2, 5, 8, 9, 1};

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

bool every_variant_and_thread_count() {
  const RandomModel model;
  for (const int32_t type : {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_FLOAT32, THIMBLE_CACHE_INT8,
                             THIMBLE_CACHE_INT4, THIMBLE_CACHE_INT8_INT4}) {
    LoadedModel reference(model, kernels::scalar::kVariant, 1, type);
    const std::vector<float> expected = run_calls(&reference, kLengths);
    for (const float logit : expected) {
      if (!expect(std::isfinite(logit), "finite logits")) return false;
    }
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 2, 3, 7}) {
        LoadedModel loaded(model, *variant, threads, type);
        if (!expect(same_bits(run_calls(&loaded, kLengths), expected), variant->name)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool chunks_leave_no_trace() {
  const RandomModel model;
  LoadedModel at_once(model, best(), 3);
  const size_t chunk = 264;  // no less than any plan's: two or three chunks
  const std::vector<float> expected = run_calls(&at_once, {2 * chunk + 40});
  for (const std::vector<size_t>& lengths : {std::vector<size_t>{chunk - 1, chunk + 1, 40},
                                             {1, 300, 2 * chunk - 261},
                                             {250, 250, 67, 1}}) {
    LoadedModel cut(model, best(), 2);
    const std::vector<float> all = run_calls(&cut, lengths);
    const std::vector<float> last(all.end() - RandomModel::kVocabulary, all.end());
    if (!expect(same_bits(last, expected), "the logits of one long call")) return false;
  }
  return true;
}

size_t parts_of(size_t rows, size_t columns, kernels::WeightFormat format, size_t threads) {
  const size_t group = format == kernels::WeightFormat::kInt8 ? 0 : 32;
  return cpu::column_parts({nullptr, rows, columns, group, format}, threads);
}

/// Which products are cut along their columns; that they give the same bits, the model shows, whose
/// int8 matrices have 3 blocks.
bool few_blocks() {
  using kernels::WeightFormat;
  return expect(parts_of(64, 192, WeightFormat::kInt8, 4) == 1, "a block for each thread") &&
         expect(parts_of(48, 96, WeightFormat::kInt8, 7) == 2, "6 halves for 7 threads") &&
         expect(parts_of(64, 192, WeightFormat::kInt8, 7) == 5, "20 fifths, 3 at most") &&
         expect(parts_of(16, 8192, WeightFormat::kInt8, 64) == 64, "a part for each thread") &&
         expect(parts_of(16, 512, WeightFormat::kInt4TwoLevel, 7) == 2, "8 groups at a time") &&
         expect(parts_of(16, 256, WeightFormat::kInt4TwoLevel, 7) == 1, "8 groups in all") &&
         expect(parts_of(16, 8192, WeightFormat::kInt4, 7) == 1, "sums of floats in order");
}

bool deep_positions() {
  const RandomModel model;
  const std::vector<size_t> lengths = {630, 1, 1, 1};  // two splits of 512 positions
  for (const int32_t type :
       {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_INT8, THIMBLE_CACHE_INT4, THIMBLE_CACHE_INT8_INT4}) {
    std::vector<float> expected;
    for (const int32_t threads : {2, 3, 5, 7}) {
      if (!test::is_chosen()) continue;
      if (expected.empty()) {
        LoadedModel reference(model, best(), 1, type);
        expected = run_calls(&reference, lengths);
      }
      LoadedModel loaded(model, best(), threads, type);
      if (!expect(same_bits(run_calls(&loaded, lengths), expected), "one thread's bits")) {
        return false;
      }
    }
  }
  return true;
}

bool rows_nobody_reads() {
  const RandomModel model;
  const RandomModel asked(true);
  cpu::Program program = model.program;
  if (!cpu::check_program(&program).ok()) return false;
  size_t last_alone = 0;
  for (const cpu::Op& op : program.ops) last_alone += op.rows == cpu::Rows::kLast;
  // All after the second layer's queries, keys and values.
  if (!expect(last_alone == 9, "9 operators for the last row alone")) return false;
  LoadedModel skipping(model, best(), 2), computing(asked, best(), 2);
  return expect(same_bits(run_calls(&skipping, kLengths), run_calls(&computing, kLengths)),
                "the same logits whether or not other rows are computed");
}

bool is_refused(LoadedModel* model, const std::vector<int64_t>& tokens, int64_t start_pos,
                const char* sentence) {
  const bool refused = model->run(tokens, start_pos).empty();
  const bool said = model->error().find(sentence) != std::string::npos;
  if (!said) std::fprintf(stderr, "%s\n", model->error().c_str());
  return expect(refused && said, sentence);
}

bool impossible_calls() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 2);
  const std::vector<float> expected = loaded.run({1, 2, 3}, 0);
  return is_refused(&loaded, {}, 0, "the call has no tokens") &&
         is_refused(&loaded, {1}, 4, "start_pos is 4, but the KV cache holds 3 positions") &&
         is_refused(&loaded, {1}, -1, "start_pos is -1") &&
         is_refused(&loaded, {5, 100}, 0, "there is no token 100: give 0 to 99") &&
         is_refused(&loaded, {-1}, 0, "there is no token -1") &&
         is_refused(&loaded, std::vector<int64_t>(698, 1), 3,
                    "698 tokens from position 3 on do not fit the context of 700") &&
         expect(same_bits(loaded.run({1, 2, 3}, 0), expected), "the same answer as before");
}

cpu::LinearOp& linear_of(cpu::Program* program, size_t op) {
  return std::get<cpu::LinearOp>(program->ops[op].kind);
}
cpu::AttentionOp& attention_of(cpu::Program* program) {
  return std::get<cpu::AttentionOp>(program->ops[2].kind);
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { p->slots[1].width = 0; }, "a slot has 0 columns"},
    {[](cpu::Program* p) { p->weights[0].columns = 70000; }, "weight w0 has 70000 columns"},
    {[](cpu::Program* p) { p->weights[1].group_size = 48; }, "weight w1 has groups of 48"},
    {[](cpu::Program* p) { p->weights[2].key.clear(); }, "has no key"},
    {[](cpu::Program* p) { p->caches[0].head_dim = 1 << 20; }, "a cache has 3 heads of 1048576"},
    {[](cpu::Program* p) { linear_of(p, 1).weight = 99; }, "operator 1 (op1) uses weight 99 of"},
    {[](cpu::Program* p) { linear_of(p, 1).input = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { linear_of(p, 1).output = 2; }, "wants a weight of 72 rows"},
    {[](cpu::Program* p) { linear_of(p, 3).output = 2; }, "reads and writes slot 2"},
    {[](cpu::Program* p) { linear_of(p, 1).norm.length = 71; }, "has 71 floats from"},
    {[](cpu::Program* p) { linear_of(p, 1).norm.offset = uint64_t{1} << 60; }, "has 72 floats"},
    {[](cpu::Program* p) { linear_of(p, 1).norm_eps = -1; }, "has the eps -1"},
    {[](cpu::Program* p) { linear_of(p, 4).prepared = true; }, "wants its input prepared"},
    {[](cpu::Program* p) { linear_of(p, 4).last_row = true; }, "reads all rows of a slot"},
    {[](cpu::Program* p) { attention_of(p).cache = 2; }, "uses cache 2 of 2"},
    {[](cpu::Program* p) { attention_of(p).cache = 1; }, "uses cache 1 of another"},
    {[](cpu::Program* p) { attention_of(p).num_attention_heads = 7; }, "has 7 heads on 3"},
    {[](cpu::Program* p) { attention_of(p).value_offset = 109; }, "wants columns 109 to 145"},
    {[](cpu::Program* p) { attention_of(p).scale = INFINITY; }, "has the scale inf"},
    {[](cpu::Program* p) { attention_of(p).sines = {}; }, "has cosines without sines"},
    {[](cpu::Program* p) { p->floats.clear(); }, "uses floats, of which the program has none"},
    {[](cpu::Program* p) { p->inputs.pop_back(); }, "it has a cache, and takes no position"},
    {[](cpu::Program* p) { p->inputs.erase(p->inputs.begin()); }, "0 inputs of tokens"},
    {[](cpu::Program* p) { p->outputs.clear(); }, "it has no output"},
    {[](cpu::Program* p) { p->outputs[0].slot = 99; }, "uses slot 99"},
    {[](cpu::Program* p) { p->outputs[0].role = cpu::Role::kTokens; }, "an output is not rows"},
};

bool damaged_programs() { return test::all_are_refused(RandomModel().program, kDamages); }

const test::Suite suite("executor",
                        {{"every_variant_and_thread_count", every_variant_and_thread_count},
                         {"chunks_leave_no_trace", chunks_leave_no_trace},
                         {"few_blocks", few_blocks},
                         {"deep_positions", deep_positions},
                         {"rows_nobody_reads", rows_nobody_reads},
                         {"impossible_calls", impossible_calls},
                         {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::executor_test
