// Samples of fixed shapes, several in a call: patches of pictures, rows that are joined, moved and
// taken, attention within parts.

#include <cmath>
#include <cstring>

#include "kernels/select/cpu_features.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::samples_test {
namespace {

using test::expect;
using test::same_bits;

constexpr uint32_t kChannels = 3, kHeight = 7, kWidth = 10, kColumns = 20;
constexpr cpu::Window kWindow{{kHeight, 3, 2, 1, 1, 4}, {kWidth, 2, 3, 0, 2, 3}};
constexpr cpu::Window kAgain{{4, 3, 1, 2, 2, 4}, {3, 1, 2, 0, 1, 2}};
constexpr cpu::Window kEach{{4, 3, 1, 1, 1, 4}, {2, 3, 1, 1, 1, 2}};
constexpr cpu::Window kSound{{1, 1, 1, 0, 1, 1}, {8, 3, 1, 2, 2, 8}};
constexpr size_t kLstmGates = 128, kGruGates = 96;  // of two blocks of units
constexpr size_t kSample = size_t{kChannels} * kHeight * kWidth, kOutput = 3 * kColumns;

/// Two convolutions, constant rows before what they compute, attention to all and to parts with
/// biases, pieces in another order, the last rows, and steps over these in both directions.
class SamplesModel : public test::ProgramBuilder {
 public:
  SamplesModel() {
    program.by_sample = true;
    const uint32_t picture = add(kHeight * kWidth, kChannels);
    program.inputs = {{cpu::Role::kRows, picture}};
    const uint32_t patches = add(kChannels * 6, 12), first = add(kColumns, 12);
    add_op(cpu::PatchesOp{picture, patches, true, kWindow});
    add_op(linear(patches, first, add_weight(kColumns, kChannels * 6, format(0))));
    const uint32_t again = add(kColumns * 3, 8), second = add(kColumns, 8);
    add_op(cpu::PatchesOp{first, again, false, kAgain});
    add_op(linear(again, second, add_weight(kColumns, kColumns * 3, format(1))));
    const uint32_t each = add(kColumns, 8), sound = add(kColumns, 8);
    add_op(cpu::DepthwiseOp{second, each, add_floats(9 * kColumns, 0, 1),
                            add_floats(kColumns, 0, 1), kernels::Function::kRelu6, kEach});
    add_op(cpu::DepthwiseOp{
        each, sound, add_floats(3 * kColumns, 0, 1), {}, kernels::Function::kAdd, kSound});
    const uint32_t token = add(kColumns, 2), rows = add(kColumns, 10);
    add_op(cpu::ConstantOp{add_weight(reals(2 * kColumns, 1.0f), kColumns), token});
    add_op(cpu::ConcatenateOp{token, sound, rows, false});
    add_op(cpu::PositionsOp{rows, add_weight(reals(10 * kColumns, 0.3f), kColumns), rows});
    add_op(cpu::AffineOp{rows, rows, add_floats(kColumns, 1, 0.2f), add_floats(kColumns, 0, 1)});
    const uint32_t attended = add(kColumns, 10), both = add(2 * kColumns, 10);
    cpu::SegmentAttentionOp attention{rows, 0, second, 0, second,     0, attended,
                                      4,    4, 0.4f,   0, UINT32_MAX, 1};
    attention.integers = true;
    add_op(attention);
    const uint32_t moved = add(kColumns, 10), bias = add(5, 40), parts = add(kColumns, 10);
    add_op(cpu::GatherOp{attended, moved, 4, moved_pieces()});
    add_op(cpu::ConstantOp{add_weight(biases(), 5), bias});
    add_op(cpu::SegmentAttentionOp{moved, 0, rows, 0, rows, 0, parts, 4, 4, 0.4f, 0, UINT32_MAX, 1,
                                   2, bias, true, true, true});
    const uint32_t pooled = add(kColumns, 10);
    add_op(cpu::PoolRowsOp{parts, pooled, 2, true, pooled_rows()});
    add_op(cpu::ConcatenateOp{rows, pooled, both, true});
    const uint32_t taken = add(2 * kColumns, 3), mean = add(2 * kColumns, 1);
    add_op(cpu::NarrowOp{both, taken, 2, 3});
    const uint32_t gates = add(kLstmGates, 3), start = add(kColumns, 1);
    add_op(linear(taken, gates, add_weight(kLstmGates, 2 * kColumns, format(0))));
    add_op(cpu::NarrowOp{token, start, 1, 1});
    for (const bool reverse : {false, true}) {
      const uint32_t weight = add_weight(reals(kLstmGates * kColumns, 0.3f), kColumns);
      const uint32_t steps = add(2 * kColumns, 3);
      add_op(cpu::RecurrentOp{gates, steps, weight, start, start, reverse, reverse});
      add_op(cpu::ElementwiseOp{kernels::Function::kAdd, taken, steps, taken, 0});
    }
    const uint32_t gru = add(kGruGates, 3), plain = add(32, 3), joined = add(2 * kColumns, 3);
    add_op(linear(taken, gru, add_weight(kGruGates, 2 * kColumns, format(0))));
    add_op(linear(taken, plain, add_weight(32, 2 * kColumns, format(0))));
    const uint32_t gated = add_steps(gru, kGruGates, start, cpu::Cell::kGru);
    const uint32_t simple = add_steps(plain, 32, start, cpu::Cell::kRnnTanh);
    add_op(cpu::ConcatenateOp{gated, simple, joined, true});
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, taken, joined, taken, 0});
    add_op(cpu::PoolOp{taken, mean, cpu::Pooling::kMean});
    const uint32_t output = add(kOutput, 1);
    add_op(linear(mean, output, add_weight(kOutput, 2 * kColumns, format(0))));
    program.outputs = {{cpu::Role::kRows, output}};
  }

 private:
  uint32_t add(size_t width, size_t height) {
    const uint32_t slot = add_slot(width);
    program.slots[slot].height = height;
    return slot;
  }
  /// Steps from the first row on after a state, and back from zeros; returns the sum of both.
  uint32_t add_steps(uint32_t gates, uint32_t width, uint32_t start, cpu::Cell cell) {
    const bool gated = cell == cpu::Cell::kGru;
    const uint32_t steps[] = {add(kColumns, 3), add(kColumns, 3)};
    for (const bool reverse : {false, true}) {
      const uint32_t weight = add_weight(reals(width * kColumns, 0.3f), kColumns);
      const cpu::Floats bias = gated && reverse ? add_floats(width, 0, 1) : cpu::Floats{};
      add_op(
          cpu::RecurrentOp{gates, steps[reverse], weight, start, 0, !reverse, reverse, bias, cell});
    }
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, steps[0], steps[1], steps[0], 0});
    return steps[0];
  }
  /// All pieces from the last to the first, but for two that are zeros.
  static std::vector<uint32_t> moved_pieces() {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < 50; ++i) indices.push_back(i % 30 == 7 ? UINT32_MAX : 49 - i);
    return indices;
  }
  static std::vector<uint32_t> pooled_rows() {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < 20; ++i) indices.push_back(i * 7 % 10);
    return indices;
  }
  /// Biases that hide some keys from each query, and all from one.
  std::vector<float> biases() {
    std::vector<float> numbers = reals(5 * 40, 1.0f);
    for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = -INFINITY;
    for (size_t i = 35; i < 40; ++i) numbers[i] = -INFINITY;
    return numbers;
  }
  static kernels::WeightFormat format(int number) {
    return number == 0 ? kernels::WeightFormat::kFloat32 : kernels::WeightFormat::kInt8;
  }
};

/// A loaded model, whose calls are of whole samples.
class Loaded {
 public:
  Loaded(const SamplesModel& model, const kernels::Variant& kernels, int32_t threads)
      : loaded_(model, kernels, threads) {}

  std::vector<float> run(const float* pictures, size_t samples) {
    std::vector<float> output(samples * kOutput);
    cpu::Call call;
    call.rows = samples;
    call.segments.assign(samples, {0, 0, 1});
    call.inputs = {pictures};
    call.outputs = {output.data()};
    if (!loaded_.executor().check(call).ok() || !loaded_.executor().run(call).ok()) return {};
    return output;
  }

 private:
  test::LoadedModel loaded_;
};

bool several_samples_are_each_alone() {
  constexpr size_t kSamples = 300;  // more than a chunk
  const SamplesModel model;
  test::Numbers numbers(5);
  std::vector<float> pictures(kSamples * kSample), expected;
  for (float& number : pictures) number = numbers.real();
  Loaded alone(model, kernels::scalar::kVariant, 1);
  for (size_t i = 0; i < kSamples; ++i) {
    const std::vector<float> one = alone.run(&pictures[i * kSample], 1);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  for (const kernels::Variant* variant : kernels::all_variants()) {
    if ((variant->required & ~kernels::cpu_features()) != 0) continue;
    for (const int32_t threads : {1, 3}) {
      Loaded loaded(model, *variant, threads);
      if (!expect(same_bits(loaded.run(pictures.data(), kSamples), expected), variant->name))
        return false;
    }
  }
  return true;
}

bool windows_see_what_is_inside() {
  for (const cpu::Side& side : {kWindow.vertical, kWindow.horizontal, kAgain.vertical,
                                cpu::Side{2, 3, 1, 5, 4, 9}, cpu::Side{1, 1, 7, 0, 1, 3}}) {
    for (size_t at = 0; at < side.output; ++at) {
      const cpu::Range inside = side.inside(at);
      for (size_t tap = 0; tap < side.kernel; ++tap) {
        const auto place = static_cast<ptrdiff_t>(at * side.stride + tap * side.dilation) -
                           static_cast<ptrdiff_t>(side.padding);
        const bool seen = place >= 0 && place < static_cast<ptrdiff_t>(side.size);
        const bool said = tap >= inside.first && tap < inside.last;
        if (!expect(seen == said, "what is inside")) return false;
        if (!expect(!seen || side.place(at, tap) == static_cast<size_t>(place), "where it is"))
          return false;
      }
    }
  }
  return true;
}

constexpr uint32_t kMostRows = 41, kRoom = 24;

/// A sound of any length: a step of two rows, a norm of all, a depthwise convolution, rotation and
/// attention, also by distances.
class SoundModel : public test::ProgramBuilder {
 public:
  /// \param rows that a sound has at most.
  explicit SoundModel(uint32_t rows) {
    program.by_sample = true;
    program.shorter = {0};
    constexpr cpu::Side kOne{1, 1, 1, 0, 1, 1};
    const uint32_t steps = (rows - 1) / 2 + 1;
    const cpu::Side two{rows, 3, 2, 1, 1, steps, 1}, each{steps, 3, 1, 1, 1, steps, 1};
    const uint32_t sound = add(kColumns, rows), patches = add(3 * kColumns, steps);
    program.inputs = {{cpu::Role::kRows, sound}};
    add_op(cpu::PatchesOp{sound, patches, false, {kOne, two}});
    const uint32_t first = add(kColumns, steps), along = add(kColumns, steps);
    add_op(linear(patches, first,
                  add_weight(kColumns, 3 * kColumns, kernels::WeightFormat::kFloat32)));
    add_op(cpu::SampleNormOp{first, first, add_floats(kColumns, 1, 0.2f),
                             add_floats(kColumns, 0, 1), 1e-5f});
    add_op(cpu::DepthwiseOp{
        first, along, add_floats(3 * kColumns, 0, 1), {}, kernels::Function::kAdd, {kOne, each}});
    constexpr size_t kAngles = kMostRows * kColumns / 4;
    add_op(cpu::RotateOp{along, along, 2, add_floats(kAngles, 0, 1), add_floats(kAngles, 0, 1)});
    const uint32_t attended = add(kColumns, steps), output = add(kColumns, steps);
    const uint32_t scores = add(steps, 2 * steps);
    add_op(cpu::RelativeScoresOp{
        along, scores, add_weight(2 * 2 * kRoom, kColumns / 2, kernels::WeightFormat::kFloat32)});
    add_op(cpu::SegmentAttentionOp{along, 0, first, 0, first, 0, attended, 2, 2, 0.4f, 0,
                                   UINT32_MAX, 1, 0, scores, true, true});
    add_op(linear(attended, output, add_weight(kColumns, kColumns, kernels::WeightFormat::kInt8)));
    program.outputs = {{cpu::Role::kRows, output}};
  }

 private:
  uint32_t add(size_t width, size_t height) {
    const uint32_t slot = add_slot(width);
    program.slots[slot].height = height;
    return slot;
  }
};

/// The output for the first rows of a sound; empty after an error.
std::vector<float> heard(test::LoadedModel* loaded, const std::vector<float>& sound, size_t rows) {
  std::vector<float> output(kMostRows * kColumns, 0.0f);
  cpu::Call call;
  call.rows = 1;
  call.segments = {{0, 0, 1}};
  call.inputs = {sound.data()};
  call.heights = {rows};
  call.outputs = {output.data()};
  cpu::CpuExecutor& executor = loaded->executor();
  if (!executor.fit(call).ok() || !executor.check(call).ok() || !executor.run(call).ok()) return {};
  return output;
}

/// Whatever was heard before, and however many threads there are.
bool shorter_sounds_are_as_if_exported_so() {
  test::Numbers numbers(7);
  std::vector<float> sound(kMostRows * kColumns);
  for (float& number : sound) number = numbers.real();
  const SoundModel longest(kMostRows);
  for (const kernels::Variant* variant : kernels::all_variants()) {
    if ((variant->required & ~kernels::cpu_features()) != 0) continue;
    for (const int32_t threads : {1, 3}) {
      test::LoadedModel loaded(longest, *variant, threads);
      for (const uint32_t rows : {kMostRows, 1u, 22u, 23u, kMostRows}) {
        const SoundModel alike(rows);
        test::LoadedModel own(alike, kernels::scalar::kVariant, 1);
        const std::vector<float> expected = heard(&own, sound, rows);
        if (!expect(!expected.empty(), "a program of its own") ||
            !expect(same_bits(heard(&loaded, sound, rows), expected), variant->name))
          return false;
      }
      if (!expect(heard(&loaded, sound, kMostRows + 1).empty(), "a sound that is too long") ||
          !expect(!heard(&loaded, sound, 5).empty(), "one after it"))
        return false;
    }
  }
  return true;
}

template <typename Kind>
Kind& first(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    if (Kind* kind = std::get_if<Kind>(&op.kind)) return *kind;
  }
  std::abort();
}

template <typename Kind>
Kind& last(cpu::Program* program) {
  for (auto op = program->ops.rbegin(); op != program->ops.rend(); ++op) {
    if (Kind* kind = std::get_if<Kind>(&op->kind)) return *kind;
  }
  std::abort();
}

/// The LSTM that begins with a state.
cpu::RecurrentOp& last_lstm(cpu::Program* program) {
  for (auto op = program->ops.rbegin(); op != program->ops.rend(); ++op) {
    auto* kind = std::get_if<cpu::RecurrentOp>(&op->kind);
    if (kind != nullptr && kind->has_memory()) return *kind;
  }
  std::abort();
}

/// The attention with biases.
cpu::SegmentAttentionOp& biased(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    auto* kind = std::get_if<cpu::SegmentAttentionOp>(&op.kind);
    if (kind != nullptr && kind->biased) return *kind;
  }
  std::abort();
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { p->slots[1].height = 0; }, "a slot has 0 rows of a sample"},
    {[](cpu::Program* p) { p->slots[1].height = SIZE_MAX; }, "rows of a sample"},
    {[](cpu::Program* p) { first<cpu::PatchesOp>(p).window.vertical.stride = 0; },
     "has a window of 0 numbers"},
    {[](cpu::Program* p) { first<cpu::PatchesOp>(p).window.horizontal.size = 11; },
     "has a picture of 77 numbers"},
    {[](cpu::Program* p) { first<cpu::PatchesOp>(p).window.horizontal.output = 4; },
     "computes 16 rows of slot 1, which has 12"},
    {[](cpu::Program* p) { first<cpu::PatchesOp>(p).window.vertical.kernel = 4; },
     "wants 24 columns in slot 1"},
    {[](cpu::Program* p) { first<cpu::PatchesOp>(p).input = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { first<cpu::DepthwiseOp>(p).weight.length = 8 * kColumns; },
     "has 160 floats from"},
    {[](cpu::Program* p) { first<cpu::DepthwiseOp>(p).window.vertical.size = 3; },
     "has a picture of 6 numbers"},
    {[](cpu::Program* p) { first<cpu::DepthwiseOp>(p).activation = kernels::Function::kScale; },
     "has the function 2 for an activation"},
    {[](cpu::Program* p) { first<cpu::DepthwiseOp>(p).output = first<cpu::DepthwiseOp>(p).input; },
     "reads and writes slot"},
    {[](cpu::Program* p) { first<cpu::RecurrentOp>(p).weight = 0; }, "wants a weight of 128 rows"},
    {[](cpu::Program* p) { first<cpu::RecurrentOp>(p).output = first<cpu::RecurrentOp>(p).input; },
     "wants 40 columns in slot"},
    {[](cpu::Program* p) { last_lstm(p).memory = 1; }, "wants 20 columns in slot 1"},
    {[](cpu::Program* p) { last_lstm(p).hidden = last<cpu::NarrowOp>(p).input; },
     "has a state of several rows"},
    {[](cpu::Program* p) { first<cpu::RecurrentOp>(p).cell = static_cast<cpu::Cell>(9); },
     "has a cell of kind 9"},
    {[](cpu::Program* p) { last<cpu::RecurrentOp>(p).bias = {0, 32}; },
     "has a bias that only a GRU"},
    {[](cpu::Program* p) { last<cpu::RecurrentOp>(p).cell = cpu::Cell::kGru; },
     "wants a weight of 96 rows"},
    {[](cpu::Program* p) { first<cpu::ConcatenateOp>(p).second = 1; },
     "wants 20 columns in slot 1"},
    {[](cpu::Program* p) { first<cpu::ConcatenateOp>(p).second = 2; }, "computes 14 rows of"},
    {[](cpu::Program* p) { first<cpu::ConcatenateOp>(p).columns = true; }, "wants 40 columns"},
    {[](cpu::Program* p) { first<cpu::ConstantOp>(p).weight = 99; }, "uses weight 99 of"},
    {[](cpu::Program* p) { first<cpu::NarrowOp>(p).step = 9; }, "reads row 20 of 10"},
    {[](cpu::Program* p) { first<cpu::NarrowOp>(p).first = UINT32_MAX; }, "reads row 4294967301"},
    {[](cpu::Program* p) { first<cpu::AffineOp>(p).weight.length = 3; }, "has 3 floats from"},
    {[](cpu::Program* p) { first<cpu::SegmentAttentionOp>(p).after = 0; },
     "has keys of other positions"},
    {[](cpu::Program* p) { biased(p).parts = 3; }, "has 10 rows in 3 parts"},
    {[](cpu::Program* p) { biased(p).bias = 99; }, "uses slot 99 of"},
    {[](cpu::Program* p) { biased(p).integers = true; }, "adds biases to scores of integers"},
    {[](cpu::Program* p) { biased(p).bias_heads = false; }, "computes 10 rows of"},
    {[](cpu::Program* p) { first<cpu::GatherOp>(p).piece = 3; }, "has pieces of 3 numbers"},
    {[](cpu::Program* p) { first<cpu::GatherOp>(p).piece = 0; }, "has pieces of 0 numbers"},
    {[](cpu::Program* p) { first<cpu::GatherOp>(p).indices.pop_back(); }, "has 49 indices"},
    {[](cpu::Program* p) { first<cpu::GatherOp>(p).indices[3] = 50; }, "reads piece 50 of 50"},
    {[](cpu::Program* p) { first<cpu::PoolRowsOp>(p).indices[3] = 10; }, "reads row 10 of 10"},
    {[](cpu::Program* p) { first<cpu::PoolRowsOp>(p).count = 0; }, "has 20 indices"},
    {[](cpu::Program* p) { p->caches.push_back({"cache", 1, 8, 64}); }, "it keeps something"},
    {[](cpu::Program* p) { p->by_sample = false; }, "is of a program by sample"},
    {[](cpu::Program* p) { p->shorter = {3}; }, "input 3 cannot be shorter"},
    {[](cpu::Program* p) { p->shorter = {0}; }, "it cannot run on shorter samples"},
};

const test::Damage kSoundDamages[] = {
    {[](cpu::Program* p) { first<cpu::RelativeScoresOp>(p).weight = 99; }, "uses weight 99 of"},
    {[](cpu::Program* p) { first<cpu::RelativeScoresOp>(p).weight = 0; }, "has heads of 60"},
    {[](cpu::Program* p) { first<cpu::RelativeScoresOp>(p).input = 0; },
     "wants 41 columns in slot"},
    {[](cpu::Program* p) { p->weights[first<cpu::RelativeScoresOp>(p).weight].rows = 2 * 2 * 16; },
     "with the distances of 21 rows"},
};

bool damaged_programs() {
  return test::all_are_refused(SamplesModel().program, kDamages) &&
         test::all_are_refused(SoundModel(kMostRows).program, kSoundDamages);
}

const test::Suite suite("samples",
                        {{"several_samples_are_each_alone", several_samples_are_each_alone},
                         {"windows_see_what_is_inside", windows_see_what_is_inside},
                         {"shorter_sounds_are_as_if_exported_so",
                          shorter_sounds_are_as_if_exported_so},
                         {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::samples_test
