// Every kind of operator, in a model of all of them: the same bits fused and in single steps, and
// what is said of damaged ones.

#include <cmath>
#include <cstring>

#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/general_model.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::ops_test {
namespace {

using kernels::Function;
using test::expect;
using test::GeneralModel;
using test::LoadedModel;
using test::same_bits;

/// Logits after each of several calls that follow one another.
std::vector<float> run_calls(LoadedModel* model, const std::vector<size_t>& lengths) {
  const std::vector<int64_t> tokens = test::random_tokens(GeneralModel::kContext);
  std::vector<float> all;
  auto next = tokens.begin();
  for (const size_t length : lengths) {
    const auto last = next + static_cast<std::ptrdiff_t>(length);
    const std::vector<float> logits = model->run({next, last}, next - tokens.begin());
    all.insert(all.end(), logits.begin(), logits.end());
    next = last;
  }
  return all;
}

/// Within a window and beyond it, of few rows and many, in one split of positions and two.
const std::vector<size_t> kLengths = {40, 1, 30, 1, 7, 300, 140, 1, 1, 60, 1};

bool fused_and_in_single_steps() {
  const GeneralModel fused(GeneralModel::Form::kFused), plain(GeneralModel::Form::kPlain);
  for (const int32_t type : {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_FLOAT32, THIMBLE_CACHE_INT8,
                             THIMBLE_CACHE_INT4, THIMBLE_CACHE_INT8_INT4}) {
    LoadedModel reference(plain, kernels::scalar::kVariant, 1, type);
    const std::vector<float> expected = run_calls(&reference, kLengths);
    for (const float logit : expected) {
      if (!expect(std::fabs(logit) < GeneralModel::kSoftCap, "capped logits")) return false;
    }
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 2, 3, 7}) {
        for (const GeneralModel* model : {&fused, &plain}) {
          if (!test::is_chosen()) continue;
          LoadedModel loaded(*model, *variant, threads, type);
          if (!expect(same_bits(run_calls(&loaded, kLengths), expected), variant->name)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

bool chunks_leave_no_trace() {
  const GeneralModel model(GeneralModel::Form::kPlain);
  const kernels::Variant& best = *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
  LoadedModel at_once(model, best, 2);
  const std::vector<float> expected = run_calls(&at_once, {600});
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{599, 1}, {1, 300, 299}, {250, 250, 93, 7}}) {
    LoadedModel cut(model, best, 3);
    const std::vector<float> all = run_calls(&cut, lengths);
    const std::vector<float> last(all.end() - GeneralModel::kVocabulary, all.end());
    if (!expect(same_bits(last, expected), "the logits of one long call")) return false;
  }
  return true;
}

bool rows_of_the_last_token() {
  cpu::Program program = GeneralModel(GeneralModel::Form::kPlain).program;
  if (!expect(cpu::check_program(&program).ok(), "a program")) return false;
  size_t last_alone = 0;
  for (const cpu::Op& op : program.ops) last_alone += op.rows == cpu::Rows::kLast;
  // Of the second layer the query's three and all from attention on; then the end.
  return expect(last_alone == 41, "41 operators for the last row alone");
}

/// The first op of a kind.
template <typename Kind>
Kind& first(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    if (Kind* kind = std::get_if<Kind>(&op.kind)) return *kind;
  }
  std::abort();
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { first<cpu::ElementwiseOp>(p).function = static_cast<Function>(200); },
     "operator 1 (op1) has the unknown function 200"},
    {[](cpu::Program* p) { first<cpu::ElementwiseOp>(p).input = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { first<cpu::ElementwiseOp>(p).output = 1; },
     "wants 36 columns in slot 1"},
    {[](cpu::Program* p) { first<cpu::ElementwiseOp>(p).number = NAN; }, "has the number nan"},
    {[](cpu::Program* p) { std::get<cpu::ElementwiseOp>(p->ops.back().kind).number = 0; },
     "has the soft cap 0"},
    {[](cpu::Program* p) {
       first<cpu::ElementwiseOp>(p).function = Function::kAdd;
       first<cpu::ElementwiseOp>(p).other = 99;
     },
     "uses slot 99 of"},
    {[](cpu::Program* p) { first<cpu::NormOp>(p).num_heads = 0; }, "has 0 heads in 36 columns"},
    {[](cpu::Program* p) { first<cpu::NormOp>(p).num_heads = 5; }, "has 5 heads in 36 columns"},
    {[](cpu::Program* p) { first<cpu::NormOp>(p).weight.length = 35; }, "has 35 floats from"},
    {[](cpu::Program* p) { first<cpu::LayerNormOp>(p).num_heads = 5; },
     "has 5 heads in 36 columns"},
    {[](cpu::Program* p) { first<cpu::LayerNormOp>(p).weight.length = 35; }, "has 35 floats from"},
    {[](cpu::Program* p) { first<cpu::LayerNormOp>(p).bias.length = 37; }, "has 37 floats from"},
    {[](cpu::Program* p) { first<cpu::LayerNormOp>(p).eps = NAN; }, "has the eps nan"},
    {[](cpu::Program* p) { first<cpu::LayerNormOp>(p).output = 1; }, "wants 36 columns in slot 1"},
    {[](cpu::Program* p) { first<cpu::XieluOp>(p).alpha_n = NAN; }, "has the number nan"},
    {[](cpu::Program* p) { first<cpu::XieluOp>(p).output = 1; }, "wants 36 columns in slot 1"},
    {[](cpu::Program* p) { first<cpu::RotateOp>(p).num_heads = 8; }, "rotates heads of 9 numbers"},
    {[](cpu::Program* p) { first<cpu::RotateOp>(p).cosines.length = 0; }, "has no angles"},
    {[](cpu::Program* p) { first<cpu::RotateOp>(p).cosines.length -= 1; }, "has 4199 floats from"},
    {[](cpu::Program* p) { first<cpu::RotateOp>(p).sines.length = 6; }, "has 6 floats from"},
    {[](cpu::Program* p) { first<cpu::GluOp>(p).activation = Function::kAdd; },
     "has the function 0 for an activation"},
    {[](cpu::Program* p) { first<cpu::GluOp>(p).activation = static_cast<Function>(77); },
     "has the function 77 for an activation"},
    {[](cpu::Program* p) { first<cpu::GluOp>(p).up = 0; }, "wants 40 columns in slot 0"},
    {[](cpu::Program* p) {
       first<cpu::LinearOp>(p).activation = static_cast<Function>(77);
       first<cpu::LinearOp>(p).gated = true;
     },
     "wants a weight of 160 rows"},
    {[](cpu::Program* p) { first<cpu::EmbeddingOp>(p).rotated = 16; }, "rotates 36 columns in"},
    {[](cpu::Program* p) { first<cpu::LinearOp>(p).rotated = 48; }, "columns in blocks of 48"},
    {[](cpu::Program* p) { first<cpu::LinearOp>(p).rotated = 16; }, "rotates 36 columns in blocks"},
    {[](cpu::Program* p) { first<cpu::SelectLastOp>(p).output = 0; }, "reads and writes slot 0"},
    {[](cpu::Program* p) { first<cpu::SelectLastOp>(p).input = 1; }, "wants"},
    {[](cpu::Program* p) {
       p->ops.push_back(p->ops.back());
       const uint32_t last = first<cpu::SelectLastOp>(p).output;
       p->ops.back().kind = cpu::ElementwiseOp{Function::kAdd, last, 0, last, 0};
     },
     "reads the last row of a slot and all rows of another"},
    {[](cpu::Program* p) { first<cpu::AttentionOp>(p).soft_cap = -1; }, "has the soft cap -1"},
    {[](cpu::Program* p) { first<cpu::AttentionOp>(p).soft_cap = NAN; }, "has the soft cap nan"},
    {[](cpu::Program* p) { first<cpu::AttentionOp>(p).sinks.length = 5; }, "has 5 floats from"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).cache = 9; }, "uses cache 9 of 2"},
    {[](cpu::Program* p) {
       const cpu::SharedAttentionOp early = first<cpu::SharedAttentionOp>(p);
       p->ops.insert(p->ops.begin(), cpu::Op{"early", early, 0, 0});
     },
     "reads cache 0, which nothing wrote"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).num_attention_heads = 4; },
     "has 4 heads on 3 of keys and values"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).query = 0; }, "wants 72 columns"},
    {[](cpu::Program* p) {
       cpu::SharedAttentionOp& shared = first<cpu::SharedAttentionOp>(p);
       shared.output = shared.query;
     },
     "reads and writes slot"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).scale = NAN; }, "has the scale nan"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).soft_cap = -1; },
     "has the soft cap -1"},
    {[](cpu::Program* p) { first<cpu::SharedAttentionOp>(p).sines.length = 6; },
     "has cosines without sines"},
    {[](cpu::Program* p) {
       p->caches[0].rows = 128;
       first<cpu::SharedAttentionOp>(p).window = 0;
     },
     "sees 0 positions (0: all) of a cache in which another sees 50"},
    {[](cpu::Program* p) { first<cpu::ColumnsOp>(p).first = 99; }, "wants columns 99 to 135"},
    {[](cpu::Program* p) {
       cpu::ColumnsOp& columns = first<cpu::ColumnsOp>(p);
       columns.first = 0;
       columns.output = columns.input;
     },
     "reads and writes slot"},
    {[](cpu::Program* p) { p->caches[1].name = p->caches[0].name; }, "two caches have the name"},
    {[](cpu::Program* p) { p->caches[1].name.clear(); }, "a cache has no name"},
};

bool damaged_programs() {
  return test::all_are_refused(GeneralModel(GeneralModel::Form::kPlain).program, kDamages);
}

/// Without a cache nothing but the tables of angles limits positions.
bool rotation_without_a_cache() {
  class Rotated : public test::ProgramBuilder {
   public:
    Rotated() {
      const uint32_t slot = add_slot(8);
      add_op(cpu::EmbeddingOp{add_weight(10, 8, kernels::WeightFormat::kInt8), slot});
      const cpu::Floats angles = add_floats(20 * 2, 0, 1);
      add_op(cpu::RotateOp{slot, slot, 2, angles, angles});
      program.outputs.push_back({cpu::Role::kRows, slot});
    }
  };
  const Rotated model;
  cpu::Program placeless = model.program;
  placeless.inputs.pop_back();
  LoadedModel loaded(model, kernels::scalar::kVariant, 1);
  return expect(loaded.run({1, 2}, 18).size() == 16, "rows at the last positions") &&
         expect(loaded.run({1, 2}, 19).empty(), "a refusal") &&
         expect(loaded.error().find("do not fit the context of 20") != std::string::npos,
                "what the tables hold") &&
         expect(loaded.run({1}, -1).empty(), "a refusal") &&
         expect(!cpu::check_program(&placeless).ok(), "a refusal without a position");
}

const test::Suite suite("ops", {{"fused_and_in_single_steps", fused_and_in_single_steps},
                                {"chunks_leave_no_trace", chunks_leave_no_trace},
                                {"rows_of_the_last_token", rows_of_the_last_token},
                                {"damaged_programs", damaged_programs},
                                {"rotation_without_a_cache", rotation_without_a_cache}});

}  // namespace
}  // namespace thimble::ops_test
