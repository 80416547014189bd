#include "delegate/ops/checker.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace thimble::cpu {
namespace {

/// Far above any model, far below what would overflow a size.
constexpr size_t kMostWidth = size_t{1} << 24;
constexpr size_t kMostRows = size_t{1} << 28;
constexpr uint64_t kMostSample = uint64_t{1} << 28;
constexpr size_t kMostHeadDim = size_t{1} << 12;
constexpr size_t kMostContext = size_t{1} << 24;
constexpr uint64_t kMostFloats = uint64_t{1} << 40;
constexpr size_t kMostRank = size_t{1} << 16;
/// More rows than a call computes at a time, and more copies than are kept of a large state.
constexpr uint64_t kMostChunkRows = 512, kMostCopies = 8;

/// Whether one thing may take so many bytes: half of all that there can be, which only systems of
/// 32 bits come near.
constexpr bool is_addressable(uint64_t bytes) { return bytes <= SIZE_MAX / 2; }

}  // namespace

Checker::Checker(Program* program)
    : program_(*program),
      owners_(program->caches.size(), false),
      state_owners_(program->states.size(), false) {}

bool Checker::check(bool right, const std::string& what) {
  if (!right && wrong_.empty()) wrong_ = where_ + what;
  return wrong_.empty();
}

Status Checker::check_all() {
  check_tables();
  for (size_t i = 0; wrong_.empty() && i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    where_ = "operator " + std::to_string(i) + " (" + op.name + ") ";
    before_ = i > 0 ? &program_.ops[i - 1] : nullptr;
    std::visit([this](const auto& kind) { kind.check(this); }, op.kind);
  }
  where_.clear();
  if (wrong_.empty()) check_arguments();
  if (wrong_.empty()) return {};
  return Status::error("the CPU delegate's program is damaged: " + wrong_ +
                       ": export the model again");
}

void Checker::check_tables() {
  for (const Slot& slot : program_.slots) {
    check(slot.height <= kMostSampleRows && uint64_t{slot.height} * slot.width <= kMostSample &&
              (!program_.by_sample || slot.is_per_segment()),
          "a slot has " + std::to_string(slot.height) + " rows of a sample");
    check(slot.width >= 1 && slot.width <= kMostWidth &&
              is_addressable(uint64_t{slot.width} * sizeof(float) * kMostChunkRows),
          "a slot has " + std::to_string(slot.width) + " columns");
  }
  if (program_.by_sample) {
    takes_segments();
    takes_positions(1);
    check(program_.caches.empty() && program_.states.empty(), "it keeps something of samples");
  }
  for (const Weight& weight : program_.weights) check_weight(weight);
  check(program_.original <= kMostContext,
        "its rotary tables change at " + std::to_string(program_.original) + " positions");
  std::set<std::string> names;
  for (const CacheShape& cache : program_.caches) {
    check_cache(cache);
    check(names.insert(cache.name).second, "two caches have the name " + cache.name);
  }
  for (const StateShape& state : program_.states) {
    check_state(state);
    check(names.insert(state.name).second, "two caches have the name " + state.name);
  }
  names.clear();
  for (const Adapter& adapter : program_.adapters) {
    check(!adapter.name.empty() && !adapter.key.empty(), "an adapter has no name or no key");
    check(names.insert(adapter.name).second, "two adapters have the name " + adapter.name);
  }
}

void Checker::check_weight(const Weight& weight) {
  where_ = "weight " + weight.key + " ";
  const size_t group = weight.group_size;
  check(!weight.key.empty(), "has no key");
  check(weight.rows >= 1 && weight.rows <= kMostRows &&
            is_addressable(uint64_t{weight.rows} * weight.columns *
                           kernels::bits_of(weight.format) / 8),
        "has " + std::to_string(weight.rows) + " rows");
  check(weight.columns >= 1 && weight.columns <= kernels::kMostColumns,
        "has " + std::to_string(weight.columns) + " columns");
  check(kernels::in_groups(weight.format) ? group == 32 || group == 64 || group == 128 : group == 0,
        "has groups of " + std::to_string(group));
  where_.clear();
}

void Checker::check_cache(const CacheShape& cache) {
  check(!cache.name.empty(), "a cache has no name");
  check(cache.num_key_value_heads >= 1 && cache.num_key_value_heads <= kMostHeads &&
            cache.head_dim >= 1 && cache.head_dim <= kMostHeadDim && cache.max_context_len >= 1 &&
            cache.max_context_len <= kMostContext &&
            is_addressable(uint64_t{cache.num_key_value_heads} * cache.head_dim *
                           cache.max_context_len * 2 * sizeof(float)),
        "a cache has " + std::to_string(cache.num_key_value_heads) + " heads of " +
            std::to_string(cache.head_dim) + " numbers and " +
            std::to_string(cache.max_context_len) + " positions");
  check(cache.rows % kernels::kAttentionTile == 0 && cache.rows <= cache.max_context_len,
        "a cache keeps " + std::to_string(cache.rows) + " of " +
            std::to_string(cache.max_context_len) + " positions");
  takes_positions(cache.max_context_len);
}

void Checker::check_state(const StateShape& state) {
  check(!state.name.empty(), "a state has no name");
  check(state.rows >= 1 && state.rows <= kMostHeadDim && state.width >= 1 &&
            state.width <= kMostWidth &&
            is_addressable(uint64_t{state.rows} * state.width * sizeof(float) * kMostCopies),
        "a state has " + std::to_string(state.rows) + " rows of " + std::to_string(state.width) +
            " numbers");
}

bool Checker::is_by_sample() {
  return check(program_.by_sample, "is of a program by sample, which this is not");
}

bool Checker::has_slot(uint32_t slot) {
  return check(slot < program_.slots.size(), "uses slot " + std::to_string(slot) + " of " +
                                                 std::to_string(program_.slots.size()));
}

bool Checker::has_slot(uint32_t slot, size_t width) {
  return has_slot(slot) &&
         check(program_.slots[slot].width == width,
               "wants " + std::to_string(width) + " columns in slot " + std::to_string(slot) +
                   ", which has " + std::to_string(program_.slots[slot].width));
}

bool Checker::has_columns(uint32_t slot, size_t offset, size_t count) {
  return has_slot(slot) &&
         check(offset <= width(slot) && count <= width(slot) - offset,
               "wants columns " + std::to_string(offset) + " to " + std::to_string(offset + count) +
                   " of slot " + std::to_string(slot) + ", which has " +
                   std::to_string(program_.slots[slot].width));
}

bool Checker::has_heads(uint32_t slot, size_t count) {
  const size_t columns = width(slot);
  return check(count >= 1 && count <= kMostHeads && columns % count == 0,
               "has " + std::to_string(count) + " heads in " + std::to_string(columns) +
                   " columns of slot " + std::to_string(slot));
}

bool Checker::has_weight(uint32_t weight) {
  return check(weight < program_.weights.size(), "uses weight " + std::to_string(weight) + " of " +
                                                     std::to_string(program_.weights.size()));
}

bool Checker::has_adapter(uint32_t adapter, size_t rank) {
  return check(adapter < program_.adapters.size(), "uses adapter " + std::to_string(adapter) +
                                                       " of " +
                                                       std::to_string(program_.adapters.size())) &&
         check(rank >= 1 && rank <= kMostRank, "has the rank " + std::to_string(rank));
}

bool Checker::has_floats(const Floats& floats, size_t length) {
  if (!check(floats.length == length && floats.offset <= kMostFloats,
             "has " + std::to_string(floats.length) + " floats from " +
                 std::to_string(floats.offset) + " where " + std::to_string(length) +
                 " are wanted")) {
    return false;
  }
  program_.num_floats = std::max<uint64_t>(program_.num_floats, floats.offset + length);
  return check(!program_.floats.empty(), "uses floats, of which the program has none");
}

bool Checker::has_optional_floats(const Floats& floats, size_t length) {
  return floats.present() ? has_floats(floats, length) : check(true, "");
}

bool Checker::has_eps(float eps) {
  return check(eps >= 0 && std::isfinite(eps), "has the eps " + std::to_string(eps));
}

bool Checker::has_blocks(uint32_t size, const Weight& weight) {
  return check(size == 0 || (kernels::is_hadamard_block(size) && weight.quantized() &&
                             weight.columns % size == 0),
               "rotates " + std::to_string(weight.columns) + " columns in blocks of " +
                   std::to_string(size));
}

bool Checker::has_activation(kernels::Function function) {
  return check(
      kernels::is_activation(function),
      "has the function " + std::to_string(static_cast<int>(function)) + " for an activation");
}

bool Checker::takes_cache(uint32_t cache) {
  if (!check(cache < program_.caches.size(), "uses cache " + std::to_string(cache) + " of " +
                                                 std::to_string(program_.caches.size()))) {
    return false;
  }
  const bool free = !owners_[cache];
  owners_[cache] = true;
  return check(free, "uses cache " + std::to_string(cache) + " of another");
}

bool Checker::reads_cache(uint32_t cache) {
  return check(cache < program_.caches.size(), "uses cache " + std::to_string(cache) + " of " +
                                                   std::to_string(program_.caches.size())) &&
         check(owners_[cache], "reads cache " + std::to_string(cache) + ", which nothing wrote");
}

bool Checker::takes_state(uint32_t state, size_t more) {
  if (!check(state < program_.states.size(), "uses state " + std::to_string(state) + " of " +
                                                 std::to_string(program_.states.size()))) {
    return false;
  }
  const bool free = !state_owners_[state];
  state_owners_[state] = true;
  program_.states[state].history = program_.states[state].rows + more;
  return check(free, "uses state " + std::to_string(state) + " of another");
}

bool Checker::takes_matrices(uint32_t state, const kernels::DeltaShape& shape) {
  if (!takes_state(state, 0)) return false;
  StateShape& kept = program_.states[state];
  kept.delta = shape;
  return check(kept.rows == 1 && kept.width == uint64_t{shape.heads} * shape.matrix(),
               "keeps " + std::to_string(kept.rows) + " states of " + std::to_string(kept.width) +
                   " numbers");
}

void Checker::takes_window(uint32_t cache, size_t window) {
  CacheShape& shape = program_.caches[cache];
  if (shape.rows == 0) return;
  shape.window = window;
  check(window >= 1 && window < shape.rows && shape.most_rows() >= kernels::kMatvecRows,
        "sees " + std::to_string(window) + " positions (0: all) of a cache that keeps " +
            std::to_string(shape.rows));
}

void Checker::reads_window(uint32_t cache, size_t window) {
  const CacheShape& shape = program_.caches[cache];
  check(shape.rows == 0 || (window >= 1 && window <= shape.window),
        "sees " + std::to_string(window) + " positions (0: all) of a cache in which another sees " +
            std::to_string(shape.window));
}

void Checker::takes_tokens(size_t count, uint32_t output) {
  program_.num_tokens = std::min(program_.num_tokens, count);
  if (!wrong_.empty() || !program_.by_sample) return;
  const size_t tokens = program_.slots[output].height;
  check(program_.sample_tokens == 0 || program_.sample_tokens == tokens,
        "embeds " + std::to_string(tokens) + " tokens of a sample, and another does not");
  program_.sample_tokens = tokens;
}

void Checker::takes_positions(size_t count) {
  program_.num_positions = std::min(program_.num_positions, count);
}

void Checker::takes_segments() { program_.needs_segments = true; }

void Checker::takes_halves(uint32_t adapter, uint64_t offset, uint64_t count) {
  uint64_t& used = program_.adapters[adapter].num_halves;
  check(offset <= kMostFloats, "has numbers from " + std::to_string(offset) + " on");
  used = std::max<uint64_t>(used, offset + count);
}

void Checker::leaves_last_only(uint32_t slot) { program_.slots[slot].last_only = true; }

void Checker::has_height(uint32_t slot, size_t height) {
  if (!wrong_.empty()) return;
  if (!program_.by_sample) program_.slots[slot].height = height;
  check(program_.slots[slot].height == height,
        "computes " + std::to_string(height) + " rows of slot " + std::to_string(slot) +
            ", which has " + std::to_string(program_.slots[slot].height));
}

void Checker::has_positions(uint32_t slot, size_t count) {
  if (!wrong_.empty()) return;
  const size_t height = program_.slots[slot].height;
  if (!program_.by_sample) takes_positions(count);
  check(program_.by_sample ? height <= count : height == 0,
        "has positions below " + std::to_string(count) + " for slot " + std::to_string(slot));
}

void Checker::pools(uint32_t slot) {
  check(program_.by_sample || program_.slots[slot].has_all_rows(), "reads a part of the rows");
}

void Checker::has_rows_of(std::initializer_list<uint32_t> inputs, uint32_t output) {
  if (!wrong_.empty()) return;
  const Slot first = program_.slots[*inputs.begin()];
  for (const uint32_t input : inputs) {
    check(program_.slots[input].last_only == first.last_only,
          "reads the last row of a slot and all rows of another");
    check(program_.slots[input].height == first.height,
          "reads some rows of each segment of a slot and others of another");
  }
  if (first.last_only) leaves_last_only(output);
  if (first.height > 0) has_height(output, first.height);
}

void Checker::check_arguments() {
  size_t tokens = 0, positions = 0;
  std::vector<bool> taken(program_.slots.size(), false);
  for (const Value& value : program_.inputs) {
    tokens += value.role == Role::kTokens;
    positions += value.role == Role::kStartPos;
    if (value.role != Role::kRows || !has_slot(value.slot)) continue;
    check(!taken[value.slot] && (program_.by_sample || program_.slots[value.slot].has_all_rows()),
          "slot " + std::to_string(value.slot) + " cannot take an input");
    taken[value.slot] = true;
  }
  check(tokens <= 1 && positions <= 1 && program_.inputs.size() > positions,
        "it has " + std::to_string(tokens) + " inputs of tokens and " + std::to_string(positions) +
            " of positions");
  check(tokens == 1 || !program_.embeds(), "it embeds tokens, and takes none");
  check(positions == 1 || !program_.keeps(), "it has a cache, and takes no position");
  const bool from_zero = program_.needs_segments;  // whatever it may be given
  check(positions == 1 || from_zero || !program_.has_positions(),
        "it rotates heads, and takes no position");
  check(!from_zero || program_.has_positions(), "it reads whole texts, of any length");
  check(!from_zero || !program_.keeps(), "it reads whole texts, and has a cache");
  for (const uint32_t input : program_.shorter) {
    check(program_.by_sample && input < program_.inputs.size() &&
              program_.inputs[input].role == Role::kRows,
          "input " + std::to_string(input) + " cannot be shorter");
  }
  check(!program_.outputs.empty(), "it has no output");
  for (const Value& value : program_.outputs) {
    check(value.role == Role::kRows, "an output is not rows");
    has_slot(value.slot);
  }
}

Status check_program(Program* program) {
  Status status = Checker(program).check_all();
  if (status.ok()) status = find_rows(program);
  if (!status.ok() || program->shorter.empty()) return status;
  std::vector<size_t> heights;  // what shortens must say what the program says of whole samples
  for (const Value& input : program->inputs) {
    heights.push_back(input.role == Role::kRows ? program->slots[input.slot].height : 0);
  }
  const Result<Program> same = shortened(*program, heights);
  bool fits = same.ok();
  for (size_t i = 0; fits && i < program->slots.size(); ++i) {
    fits = same->slots[i].height == program->slots[i].height;
  }
  if (fits) return {};
  return Status::error(
      "the CPU delegate's program is damaged: it cannot run on shorter samples: export the model "
      "again");
}

}  // namespace thimble::cpu
