// Mixtures of experts: the bits of their experts one by one, whatever the rows, threads and
// kernels.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "delegate/ops/routing.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::experts_test {
namespace {

using kernels::Function;
using kernels::kBlockRows;
using kernels::WeightFormat;
using test::expect;
using test::LoadedModel;
using test::same_bits;

struct Form {
  WeightFormat format;
  size_t hidden, inner, experts, chosen;
  bool normalized, biased;
  uint32_t rotated;
  float limit = 0;
  bool sigmoid = false, choice_biased = false;
  float share_scale = 1;
};
const Form kForms[] = {
    {WeightFormat::kInt4TwoLevel, 80, 48, 6, 2, true, false, 16},
    {WeightFormat::kInt6TwoLevel, 64, 64, 40, 8, true, false, 64},
    {WeightFormat::kInt4, 96, 40, 5, 1, false, true, 0},
    {WeightFormat::kInt8, 72, 40, 5, 3, false, true, 0},
    {WeightFormat::kFloat32, 36, 24, 7, 4, true, true, 0},
    {WeightFormat::kInt4TwoLevel, 64, 32, 8, 4, true, true, 32, 0.7f},
    {WeightFormat::kInt8, 40, 20, 1, 1, true, true, 0},
    {WeightFormat::kInt8, 40, 20, 9, 3, true, false, 0, 0, true, true, 2.5f},
    {WeightFormat::kInt8, 40, 20, 9, 3, false, false, 0, 0, true, false, 0.5f},
};

enum class Shown { kOutput, kScores };

/// Embedding, router and experts.
class Mixture : public test::ProgramBuilder {
 public:
  static constexpr size_t kVocabulary = 100;

  explicit Mixture(const Form& form, Shown shown = Shown::kOutput) {
    input = add_slot(form.hidden);
    add_op(cpu::EmbeddingOp{add_weight(kVocabulary, form.hidden, WeightFormat::kInt8), input});
    const uint32_t scores = add_slot(form.experts), output = add_slot(form.hidden);
    add_op(linear(input, scores, add_weight(reals(form.experts * form.hidden, 1), form.hidden)));
    const size_t up_rows = 2 * kernels::round_up(form.inner, kBlockRows);
    const size_t down_rows =
        form.experts == 1 ? form.hidden : kernels::round_up(form.hidden, kBlockRows);
    op.input = input;
    op.scores = scores;
    op.output = output;
    op.up_weight = add_weight(form.experts * up_rows, form.hidden, form.format);
    op.down_weight = add_weight(form.experts * down_rows, form.inner, form.format);
    if (form.biased) {
      op.up_bias = add_floats(form.experts * up_rows, 0, 0.5f);
      op.down_bias = add_floats(form.experts * down_rows, 0, 0.5f);
    }
    op.num_experts_per_tok = static_cast<uint32_t>(form.chosen);
    op.normalized = form.normalized;
    op.sigmoid = form.sigmoid;
    op.share_scale = form.share_scale;
    if (form.choice_biased) op.choice_bias = add_floats(form.experts, 0, 0.5f);
    op.activation = form.limit > 0 ? Function::kQuickGelu : Function::kSilu;
    op.limit = form.limit;
    op.up_rotated = op.down_rotated = form.rotated;
    add_op(op);
    program.outputs.push_back({cpu::Role::kRows, shown == Shown::kOutput ? output : scores});
  }

  cpu::ExpertsOp op{};
  uint32_t input;
};

/// One of the experts alone, of all rows: a gated linear, and one behind it. Only experts have a
/// limit; with one, it is a mixture of one.
class OneExpert : public Mixture {
 public:
  OneExpert(const Form& form, size_t expert) : Mixture(form) {
    program.ops.pop_back();
    op.up_weight = cut(op.up_weight, form.experts, expert);
    op.down_weight = cut(op.down_weight, form.experts, expert);
    program.weights[op.down_weight].rows = form.hidden;
    if (form.biased) {
      op.up_bias = cut(op.up_bias, form.experts, expert);
      op.down_bias = cut(op.down_bias, form.experts, expert);
      op.down_bias.length = static_cast<uint32_t>(form.hidden);
    }
    form.limit > 0 ? add_mixture(form) : add_linears(form);
  }

 private:
  void add_mixture(const Form& form) {
    op.scores = add_slot(1);
    op.num_experts_per_tok = 1;
    add_op(linear(input, op.scores, add_weight(reals(form.hidden, 1), form.hidden)));
    add_op(op);
  }
  void add_linears(const Form& form) {
    const uint32_t gated = add_slot(form.inner);
    cpu::LinearOp up = linear(input, gated, op.up_weight);
    cpu::LinearOp down = linear(gated, op.output, op.down_weight);
    up.gated = true;
    up.activation = kernels::Function::kSilu;
    up.rotated = down.rotated = form.rotated;
    up.bias = op.up_bias;
    down.bias = op.down_bias;
    add_op(up);
    add_op(down);
  }
  uint32_t cut(uint32_t weight, size_t experts, size_t expert) {
    cpu::Weight part = program.weights[weight];
    part.key += "'";
    part.rows /= experts;
    const size_t bytes = part.packed(nullptr).bytes();
    weights.push_back(std::make_unique<test::AlignedBuffer>(bytes));
    std::memcpy(weights.back()->data(), weights[weight]->data() + expert * bytes, bytes);
    program.weights.push_back(part);
    return static_cast<uint32_t>(program.weights.size() - 1);
  }
  static cpu::Floats cut(const cpu::Floats& all, size_t experts, size_t expert) {
    const size_t length = all.length / experts;
    return {all.offset + expert * length, static_cast<uint32_t>(length)};
  }
};

std::vector<float> run(const test::ProgramBuilder& model, const kernels::Variant& kernels,
                       int32_t threads, const std::vector<size_t>& lengths) {
  LoadedModel loaded(model, kernels, threads);
  const size_t total = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  const std::vector<int64_t> tokens = test::random_tokens(total);
  std::vector<float> all;
  auto next = tokens.begin();
  for (const size_t length : lengths) {
    const auto last = next + static_cast<std::ptrdiff_t>(length);
    const std::vector<float> rows = loaded.run({next, last}, next - tokens.begin());
    all.insert(all.end(), rows.begin(), rows.end());
    next = last;
  }
  return all;
}

/// The experts with the highest scores, in ascending order.
std::vector<size_t> choose(const float* scores, const Form& form) {
  std::vector<size_t> experts(form.experts);
  std::iota(experts.begin(), experts.end(), size_t{0});
  std::stable_sort(experts.begin(), experts.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  experts.resize(form.chosen);
  std::sort(experts.begin(), experts.end());
  return experts;
}

constexpr size_t kRows = 90;

/// The shares of the chosen experts of a row. `own` are its scores.
std::vector<float> shares_of(const std::vector<size_t>& chosen, const std::vector<float>& own,
                             const Form& form) {
  std::vector<float> shares = own;
  if (form.normalized || form.sigmoid) {
    shares.clear();
    for (const size_t expert : chosen) shares.push_back(own[expert]);
  }
  if (!form.sigmoid) {
    kernels::scalar::kVariant.softmax(shares.data(), shares.size());
    if (form.normalized) return shares;
    std::vector<float> some;
    for (const size_t expert : chosen) some.push_back(shares[expert]);
    return some;
  }
  float sum = 1e-6f;
  for (const float share : shares) sum += share;
  for (float& share : shares) share = (form.normalized ? share / sum : share) * form.share_scale;
  return shares;
}

/// What a mixture gives, from what each of its experts gives.
std::vector<float> added(const Form& form) {
  const kernels::Variant& scalar = kernels::scalar::kVariant;
  const std::vector<float> scores = run(Mixture(form, Shown::kScores), scalar, 1, {kRows});
  std::vector<std::vector<float>> each;
  for (size_t expert = 0; expert < form.experts; ++expert) {
    each.push_back(run(OneExpert(form, expert), scalar, 1, {kRows}));
  }
  const Mixture mixture(form);
  const float* bias = mixture.floats.data() + mixture.op.choice_bias.offset;
  std::vector<float> expected(kRows * form.hidden, 0.0f);
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<float> own(&scores[row * form.experts], &scores[row * form.experts] + form.experts);
    std::vector<float> choices;
    if (form.sigmoid) {
      scalar.elementwise({Function::kSigmoid, own.data(), nullptr, 0, own.size(), own.data()});
    }
    for (size_t i = 0; i < own.size(); ++i) {
      choices.push_back(form.choice_biased ? own[i] + bias[i] : own[i]);
    }
    const std::vector<size_t> chosen = choose(choices.data(), form);
    const std::vector<float> shares = shares_of(chosen, own, form);
    float* y = &expected[row * form.hidden];
    for (size_t i = 0; i < chosen.size(); ++i) {
      float* x = &each[chosen[i]][row * form.hidden];
      scalar.elementwise({Function::kScale, x, nullptr, shares[i], form.hidden, x});
      scalar.elementwise({Function::kAdd, y, x, 0, form.hidden, y});
    }
  }
  return expected;
}

/// In one call and in pieces, on every number of threads, by every variant.
bool sums_of_experts() {
  for (const Form& form : kForms) {
    const std::vector<float> expected = added(form);
    const Mixture model(form);
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 2, 3, 7}) {
        for (const std::vector<size_t>& lengths :
             {std::vector<size_t>{kRows}, {1, 1, 5, 83}, {40, 13, 1, 36}}) {
          if (!expect(same_bits(run(model, *variant, threads, lengths), expected), variant->name)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

/// More rows than one chunk has.
bool chunks_leave_no_trace() {
  const Mixture model(kForms[0]);
  const kernels::Variant& best = *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
  const std::vector<float> expected = run(model, kernels::scalar::kVariant, 1, {700});
  return expect(same_bits(run(model, best, 2, {700}), expected), "the rows of one long call") &&
         expect(same_bits(run(model, best, 3, {699, 1}), expected), "those of two calls");
}

/// Equal scores: the first experts; scores that are no numbers are a choice like any other.
bool ties_and_what_is_no_number() {
  cpu::Routing routing({6, 3, true});
  const float nan = NAN;
  const std::vector<float> scores = {1, 2, 2, 2, 1, 2, nan, nan, 3, nan, nan, nan};
  std::vector<uint64_t> memory(routing.bytes(2) / 8 + 1);
  routing.route(scores.data(), 6, 2, kernels::scalar::kVariant,
                reinterpret_cast<uint8_t*>(memory.data()));
  std::vector<size_t> counts;
  for (size_t expert = 0; expert < 6; ++expert) counts.push_back(routing.count(expert));
  return expect(counts == std::vector<size_t>{1, 2, 2, 1, 0, 0}, "the first of equal scores") &&
         expect(routing.used() == 4 && routing.rows(1)[0].row == 0 && routing.rows(1)[1].row == 1,
                "rows in their order") &&
         expect(routing.rows(3)[0].share == 1.0f / 3, "a third for each of three");
}

cpu::ExpertsOp& experts(cpu::Program* program) {
  return std::get<cpu::ExpertsOp>(program->ops.back().kind);
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { experts(p).num_experts_per_tok = 0; }, "chooses 0 of 5 experts"},
    {[](cpu::Program* p) { experts(p).num_experts_per_tok = 6; }, "chooses 6 of 5 experts"},
    {[](cpu::Program* p) { experts(p).up_weight = 99; }, "uses weight 99 of"},
    {[](cpu::Program* p) { experts(p).down_weight = 99; }, "uses weight 99 of"},
    {[](cpu::Program* p) { experts(p).scores = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { experts(p).output = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { experts(p).output = experts(p).input; }, "reads and writes slot 0"},
    {[](cpu::Program* p) { experts(p).input = experts(p).scores; }, "wants 72 columns in slot 1"},
    {[](cpu::Program* p) { p->weights[experts(p).up_weight].rows -= 1; },
     "wants a weight of 480 rows, and has 479"},
    {[](cpu::Program* p) { p->weights[experts(p).down_weight].rows += 1; },
     "wants a weight of 400 rows, and has 401"},
    {[](cpu::Program* p) { experts(p).up_bias.length -= 1; }, "has 479 floats from"},
    {[](cpu::Program* p) { experts(p).down_bias.length -= 1; }, "has 399 floats from"},
    {[](cpu::Program* p) { experts(p).activation = Function::kAdd; },
     "has the function 0 for an activation"},
    {[](cpu::Program* p) { experts(p).limit = -1; }, "has the limit -1"},
    {[](cpu::Program* p) { experts(p).limit = NAN; }, "has the limit nan"},
    {[](cpu::Program* p) { experts(p).share_scale = NAN; }, "scales by nan"},
    {[](cpu::Program* p) { experts(p).choice_bias.length = 5; }, "a bias of the choice, but no"},
    {[](cpu::Program* p) { experts(p).choice_bias.length = 4; }, "has 4 floats from"},
    {[](cpu::Program* p) { experts(p).up_rotated = 48; }, "rotates 72 columns in blocks of 48"},
    {[](cpu::Program* p) { experts(p).down_rotated = 16; }, "rotates 40 columns in blocks of 16"},
};

bool damaged_programs() { return test::all_are_refused(Mixture(kForms[3]).program, kDamages); }

const test::Suite suite("experts", {{"sums_of_experts", sums_of_experts},
                                    {"chunks_leave_no_trace", chunks_leave_no_trace},
                                    {"ties_and_what_is_no_number", ties_and_what_is_no_number},
                                    {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::experts_test
