// Whole texts, several in a call: learned positions, attention without a cache, pooling.

#include <cmath>
#include <cstring>

#include "delegate/program/call_check.h"
#include "kernels/select/cpu_features.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::encoder_test {
namespace {

using test::expect;
using test::LoadedModel;
using test::same_bits;

constexpr size_t kWidth = 24, kInner = 40, kVocabulary = 100, kPositions = 600;
constexpr uint32_t kAll = UINT32_MAX;
constexpr float kEps = 1e-5f;

/// How a text is attended to and pooled.
struct Form {
  uint32_t heads, key_heads, window, after;
  cpu::Pooling pooling;
};

/// One layer of an encoder and what makes a row of a text.
class EncoderModel : public test::ProgramBuilder {
 public:
  /// \param activates whether a linear applies the activation of what it makes.
  explicit EncoderModel(const Form& form, bool activates = true) {
    program.inputs = {{cpu::Role::kTokens, 0}};
    const uint32_t hidden = add_slot(kWidth), dim = kWidth / form.heads;
    add_op(cpu::EmbeddingOp{add_weight(kVocabulary, kWidth, kernels::WeightFormat::kInt8), hidden});
    add_op(cpu::PositionsOp{hidden, add_weight(reals(kPositions * kWidth, 0.3f), kWidth), hidden});
    add_op(cpu::LayerNormOp{hidden, hidden, add_floats(kWidth, 1, 0.2f), {}, kEps, 1});
    const uint32_t keys = form.key_heads * dim, qkv = add_slot(kWidth + 2 * keys);
    add_op(
        linear(hidden, qkv, add_weight(kWidth + 2 * keys, kWidth, kernels::WeightFormat::kInt8)));
    const uint32_t attended = add_slot(kWidth);
    add_op(cpu::SegmentAttentionOp{qkv, 0, qkv, static_cast<uint32_t>(kWidth), qkv,
                                   static_cast<uint32_t>(kWidth) + keys, attended, form.heads,
                                   form.key_heads, 0.4f, form.window, form.after, kPositions});
    cpu::LinearOp back = linear(attended, hidden, add_weight(reals(kWidth * kWidth, 0.2f), kWidth));
    back.accumulate = true;
    add_op(back);
    const uint32_t inner = add_slot(kInner);
    cpu::LinearOp up =
        linear(hidden, inner, add_weight(kInner, kWidth, kernels::WeightFormat::kInt8));
    up.bias = add_floats(kInner, 0, 0.5f);
    if (activates) up.activation = kernels::Function::kGelu;
    add_op(up);
    if (!activates) add_op(cpu::ElementwiseOp{kernels::Function::kGelu, inner, 0, inner, 0});
    cpu::LinearOp down = linear(inner, hidden, add_weight(reals(kWidth * kInner, 0.2f), kInner));
    down.accumulate = true;
    add_op(down);
    const uint32_t pooled = add_slot(kWidth), rows = add_slot(kWidth + 4);
    add_op(cpu::PoolOp{hidden, pooled, form.pooling});
    add_op(linear(pooled, rows, add_weight(kWidth + 4, kWidth, kernels::WeightFormat::kInt8)));
    add_op(cpu::NormOp{rows, rows, {}, kEps, 1});
    program.outputs.push_back({cpu::Role::kRows, rows});
  }
};

const Form kForms[] = {{4, 4, 0, kAll, cpu::Pooling::kMean},
                       {6, 2, 5, 4, cpu::Pooling::kFirst},
                       {3, 1, 0, 0, cpu::Pooling::kLast},
                       {2, 2, 70, 0, cpu::Pooling::kMean},
                       {1, 1, 40, 9, cpu::Pooling::kLast}};

/// Of one token and more, within a tile of positions and beyond a split of them.
const std::vector<size_t> kLengths = {7, 1, 33, 600, 17, 130, 64, 2};

bool several_texts_are_each_alone() {
  const std::vector<int64_t> all = test::random_tokens(2000);
  for (const Form& form : kForms) {
    const EncoderModel model(form);
    std::vector<float> expected;
    std::vector<cpu::Segment> segments;
    std::vector<int64_t> tokens;
    {
      LoadedModel alone(model, kernels::scalar::kVariant, 1);
      for (const size_t length : kLengths) {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(tokens.size());
        const std::vector<int64_t> text(first, first + static_cast<std::ptrdiff_t>(length));
        const std::vector<float> row = alone.run(text, 0);
        expected.insert(expected.end(), row.begin(), row.end());
        segments.push_back({0, 0, length, 0});
        tokens.insert(tokens.end(), text.begin(), text.end());
      }
    }
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 2, 5}) {
        LoadedModel loaded(model, *variant, threads);
        std::vector<float> rows(kLengths.size() * (kWidth + 4));
        const std::vector<float> last = loaded.run(segments, tokens, rows.data());
        if (!expect(same_bits(rows, expected), variant->name) ||
            !expect(std::memcmp(last.data(), &rows[rows.size() - last.size()],
                                last.size() * sizeof(float)) == 0,
                    "the last row in the program's own output"))
          return false;
      }
    }
  }
  return true;
}

bool an_activation_in_a_linear_is_one_behind_it() {
  const std::vector<int64_t> tokens = test::random_tokens(70);
  const EncoderModel inside(kForms[0]), behind(kForms[0], false);
  for (const kernels::Variant* variant : kernels::all_variants()) {
    if ((variant->required & ~kernels::cpu_features()) != 0) continue;
    for (const size_t length : {1, 5, 70}) {
      const std::vector<int64_t> text(tokens.begin(),
                                      tokens.begin() + static_cast<std::ptrdiff_t>(length));
      LoadedModel fused(inside, *variant, 2);
      LoadedModel apart(behind, *variant, 2);
      if (!expect(same_bits(fused.run(text, 0), apart.run(text, 0)), variant->name)) return false;
    }
  }
  return true;
}

/// Attention of rows to themselves, and nothing else.
class Attending : public test::ProgramBuilder {
 public:
  explicit Attending(const Form& form) {
    program.inputs = {{cpu::Role::kTokens, 0}};
    const uint32_t hidden = add_slot(kWidth), attended = add_slot(kWidth);
    table = reals(kVocabulary * kWidth, 1.0f);
    add_op(cpu::EmbeddingOp{add_weight(table, kWidth), hidden});
    add_op(cpu::SegmentAttentionOp{hidden, 0, hidden, 0, hidden, 0, attended, form.heads,
                                   form.key_heads, 0.7f, form.window, form.after, kPositions});
    program.outputs.push_back({cpu::Role::kRows, attended});
  }
  std::vector<float> table;
};

bool attention_as_it_is_defined() {
  const std::vector<int64_t> tokens = test::random_tokens(90);
  for (const Form& form : kForms) {
    const Attending model(form);
    LoadedModel loaded(model, kernels::scalar::kVariant, 1);
    const std::vector<float> rows = loaded.run(tokens, 0);
    const size_t dim = kWidth / form.heads, group = form.heads / form.key_heads;
    const auto row = [&](size_t at) {
      return model.table.data() + static_cast<size_t>(tokens[at]) * kWidth;
    };
    for (size_t q = 0; q < tokens.size(); ++q)
      for (size_t head = 0; head < form.heads; ++head) {
        std::vector<double> output(dim, 0);
        double sum = 0;
        for (size_t k = 0; k < tokens.size(); ++k) {
          const bool seen = k <= q ? form.window == 0 || q - k < form.window : k - q <= form.after;
          if (!seen) continue;
          double score = 0;
          for (size_t d = 0; d < dim; ++d)
            score += double{row(q)[head * dim + d]} * row(k)[head / group * dim + d];
          const double weight = std::exp(0.7 * score);
          sum += weight;
          for (size_t d = 0; d < dim; ++d) output[d] += weight * row(k)[head / group * dim + d];
        }
        for (size_t d = 0; d < dim; ++d) {
          if (std::fabs(rows[q * kWidth + head * dim + d] - output[d] / sum) > 2e-6)
            return expect(false, "the definition of attention");
        }
      }
  }
  return true;
}

bool pooling_as_it_is_defined() {
  const std::vector<int64_t> tokens = test::random_tokens(11);
  for (const cpu::Pooling pooling :
       {cpu::Pooling::kFirst, cpu::Pooling::kLast, cpu::Pooling::kMean}) {
    Attending model({1, 1, 1, 0, pooling});  // each row sees itself alone
    model.program.slots.push_back({kWidth});
    model.program.ops.push_back({"pool", cpu::PoolOp{1, 2, pooling}, 9, 9});
    model.program.outputs[0].slot = 2;
    LoadedModel loaded(model, kernels::scalar::kVariant, 1);
    const std::vector<float> row = loaded.run(tokens, 0);
    for (size_t i = 0; i < kWidth; ++i) {
      const auto number = [&](size_t at) {
        return model.table[static_cast<size_t>(tokens[at]) * kWidth + i];
      };
      double expected = pooling == cpu::Pooling::kLast ? number(10) : number(0);
      for (size_t at = 1; pooling == cpu::Pooling::kMean && at < 11; ++at) expected += number(at);
      if (pooling == cpu::Pooling::kMean) expected /= 11;
      if (std::fabs(row[i] - expected) > 1e-6) return expect(false, "the definition of pooling");
    }
  }
  return true;
}

bool what_is_no_text() {
  LoadedModel loaded(EncoderModel(kForms[0]), kernels::scalar::kVariant, 1);
  const std::vector<int64_t> long_text(kPositions + 1, 1);
  return expect(loaded.run(long_text, 0).empty(), "a refusal") &&
         expect(loaded.error().find("do not fit the context of 600") != std::string::npos,
                "what is too long") &&
         expect(loaded.run({1, 2}, 3).empty(), "a refusal") &&
         expect(loaded.error() == "start_pos is 3, but this program reads whole texts: start at 0",
                "where a text starts") &&
         expect(loaded.run({100}, 0).empty(), "a refusal of an unknown token");
}

bool several_rows_have_a_place() {
  LoadedModel loaded(EncoderModel(kForms[0]), kernels::scalar::kVariant, 1);
  const auto session = cpu::find_session(loaded.session());
  cpu::Call call;
  call.rows = 5;
  call.segments = {{0, 0, 5}};
  const cpu::AskedSegments two{{{0, 0, 3, 0}, {0, 0, 2, 0}}};
  cpu::Program program = loaded.executor().program();
  const std::string pooled = cpu::choose_segments(program, *session, two, &call).message();
  program.by_sample = true;
  const std::string samples = cpu::choose_segments(program, *session, two, &call).message();
  return expect(pooled.find("a row for each of 2 segments") != std::string::npos, "of texts") &&
         expect(samples.find("takes whole samples") != std::string::npos, "of samples") &&
         expect(call.segments.size() == 1, "the call as it was");
}

/// The first op of a kind.
template <typename Kind>
Kind& first(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    if (Kind* kind = std::get_if<Kind>(&op.kind)) return *kind;
  }
  std::abort();
}

using Attention = cpu::SegmentAttentionOp;

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { first<Attention>(p).num_key_value_heads = 3; }, "has 4 heads on 3"},
    {[](cpu::Program* p) { first<Attention>(p).num_key_value_heads = 0; }, "has 4 heads on 0"},
    {[](cpu::Program* p) { first<Attention>(p).num_attention_heads = 5; }, "has 5 heads in 24"},
    {[](cpu::Program* p) { first<Attention>(p).value_offset = 49; }, "wants columns 49 to 73"},
    {[](cpu::Program* p) { first<Attention>(p).key = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { first<Attention>(p).scale = NAN; }, "has the scale nan"},
    {[](cpu::Program* p) { first<Attention>(p).max_seq_len = 0; }, "takes texts of 0 tokens"},
    {[](cpu::Program* p) { first<Attention>(p).query = first<Attention>(p).output; },
     "reads and writes slot"},
    {[](cpu::Program* p) {
       first<cpu::PositionsOp>(p).weight = 0;
       first<cpu::PositionsOp>(p).output = 1;
     },
     "wants 24 columns in slot 1"},
    {[](cpu::Program* p) {
       for (cpu::Op& op : p->ops) {
         cpu::LinearOp* linear = std::get_if<cpu::LinearOp>(&op.kind);
         if (linear != nullptr && linear->activates()) linear->accumulate = true;
       }
     },
     "activates what it adds"},
    {[](cpu::Program* p) { first<cpu::LinearOp>(p).activation = kernels::Function::kScale; },
     "has the function 2 for an activation"},
    {[](cpu::Program* p) { first<cpu::PositionsOp>(p).weight = 99; }, "uses weight 99 of"},
    {[](cpu::Program* p) { first<cpu::PoolOp>(p).pooling = static_cast<cpu::Pooling>(3); },
     "has the unknown pooling 3"},
    {[](cpu::Program* p) { first<cpu::PoolOp>(p).output = 0; }, "reads and writes slot 0"},
    {[](cpu::Program* p) {
       const cpu::PoolOp pool = first<cpu::PoolOp>(p);
       p->ops.push_back({"again", cpu::PoolOp{pool.output, pool.input, pool.pooling}, 0, 0});
     },
     "reads a part of the rows"},
    {[](cpu::Program* p) {
       const uint32_t pooled = first<cpu::PoolOp>(p).output;
       p->ops.push_back(
           {"sum", cpu::ElementwiseOp{kernels::Function::kAdd, pooled, 0, pooled, 0}, 0, 0});
     },
     "reads some rows of each segment of a slot and others of another"},
    {[](cpu::Program* p) {
       p->caches.push_back({"cache", 1, 8, 64});
       p->inputs.push_back({cpu::Role::kStartPos, 0});
     },
     "it reads whole texts, and has a cache"},
};

bool damaged_programs() { return test::all_are_refused(EncoderModel(kForms[0]).program, kDamages); }

const test::Suite suite("encoder", {{"several_texts_are_each_alone", several_texts_are_each_alone},
                                    {"an_activation_in_a_linear_is_one_behind_it",
                                     an_activation_in_a_linear_is_one_behind_it},
                                    {"attention_as_it_is_defined", attention_as_it_is_defined},
                                    {"pooling_as_it_is_defined", pooling_as_it_is_defined},
                                    {"what_is_no_text", what_is_no_text},
                                    {"several_rows_have_a_place", several_rows_have_a_place},
                                    {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::encoder_test
