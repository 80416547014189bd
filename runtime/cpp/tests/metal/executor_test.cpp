// The Metal delegate's executor on a random model in every format: the CPU delegate's bits, with
// the same caches in the same sessions.

#include "delegate/metal/executor.h"

#include <cmath>

#include "tests/cases.h"
#include "tests/delegate/model.h"

namespace {

using namespace thimble;
using test::expect;
using test::RandomModel;
using test::same_bits;

/// A model on the Metal delegate, in a session of its own.
class MetalModel {
 public:
  explicit MetalModel(const test::ProgramBuilder& model,
                      int32_t cache_type = THIMBLE_CACHE_DEFAULT) {
    const thimble_session_options options{1, cache_type, 0};
    char error[200] = "";
    if (thimble_session_open(&options, &session_, error, sizeof(error)) != 0) std::abort();
    cpu::Program program = model.program;
    if (!cpu::check_program(&program).ok()) std::abort();
    auto device = metal::open_device();
    auto executor =
        metal::MetalExecutor::create(std::move(program), model.packed(), model.floats.data(),
                                     cpu::find_session(session_), std::move(*device));
    error_ = executor.message();
    if (executor.ok()) executor_ = std::move(*executor);
  }
  ~MetalModel() {
    executor_.reset();
    thimble_session_close(session_);
  }
  MetalModel(const MetalModel&) = delete;
  MetalModel& operator=(const MetalModel&) = delete;

  int32_t session() const { return session_; }
  const std::string& error() const { return error_; }

  /// The logits of the last of some tokens; empty after an error.
  std::vector<float> run(const std::vector<int64_t>& tokens, int64_t start_pos) {
    cpu::Call call;
    std::vector<float> logits(RandomModel::kVocabulary);
    call.segments = {{cpu::find_session(session_)->current(), start_pos, tokens.size()}};
    call.rows = tokens.size();
    call.tokens = tokens.data();
    call.outputs = {logits.data()};
    Status status = executor_->check(call);
    if (status.ok()) status = executor_->run(call);
    error_ = status.message();
    if (!status.ok()) logits.clear();
    return logits;
  }

 private:
  int32_t session_ = 0;
  std::unique_ptr<metal::MetalExecutor> executor_;
  std::string error_;
};

/// Logits after each of several calls that follow one another from `start` on.
template <typename Model>
std::vector<float> run_calls(Model* model, const std::vector<size_t>& lengths, size_t start = 0) {
  const std::vector<int64_t> tokens = test::random_tokens(RandomModel::kContext);
  std::vector<float> all;
  for (const size_t length : lengths) {
    const auto next = tokens.begin() + static_cast<int64_t>(start);
    const std::vector<float> logits =
        model->run({next, next + static_cast<int64_t>(length)}, static_cast<int64_t>(start));
    all.insert(all.end(), logits.begin(), logits.end());
    start += length;
  }
  return all;
}

std::vector<float> expected_of(const RandomModel& model, const std::vector<size_t>& lengths,
                               int32_t type = THIMBLE_CACHE_DEFAULT) {
  test::LoadedModel loaded(model, kernels::scalar::kVariant, 1, type);
  return run_calls(&loaded, lengths);
}

/// Gives every attention a window, and its cache the rows of a ring, or 0.
void set_window(RandomModel* model, size_t positions, size_t rows) {
  for (cpu::Op& op : model->program.ops) {
    auto* attention = std::get_if<cpu::AttentionOp>(&op.kind);
    if (attention != nullptr) attention->window = static_cast<uint32_t>(positions);
  }
  for (cpu::CacheShape& cache : model->program.caches) cache.rows = rows;
}

std::vector<uint8_t> saved_cache(int32_t session) {
  std::vector<uint8_t> bytes(thimble_cache_size(session));
  char error[200] = "";
  if (thimble_cache_save(session, bytes.data(), bytes.size(), error, sizeof(error)) != 0) {
    bytes.clear();
  }
  return bytes;
}

bool same_bits_as_the_cpu_delegate() {
  const RandomModel model;
  const std::vector<size_t> lengths = {13, 1, 1, 2, 5, 8, 35, 1};
  for (const int32_t type : {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_FLOAT32}) {
    MetalModel loaded(model, type);
    const std::vector<float> logits = run_calls(&loaded, lengths);
    for (const float logit : logits) {
      if (!expect(std::isfinite(logit), "finite logits")) return false;
    }
    if (!expect(same_bits(logits, expected_of(model, lengths, type)), "the CPU delegate's bits")) {
      return false;
    }
  }
  return true;
}

/// More rows than are run together, and two splits of positions.
bool chunks_and_splits() {
  const RandomModel model;
  const std::vector<size_t> lengths = {600, 1, 3};
  MetalModel loaded(model);
  return expect(same_bits(run_calls(&loaded, lengths), expected_of(model, lengths)),
                "the CPU delegate's bits");
}

struct Window {
  size_t positions;
  size_t rows;  ///< that a ring keeps; 0: it is none
};

/// Windows within a tile and over several, of whole caches and of rings, before and beyond a split.
bool windows() {
  const std::vector<size_t> lengths = {256, 1, 70, 190, 1};
  for (const Window window : {Window{9, 320}, Window{40, 0}, Window{350, 640}}) {
    RandomModel model;
    set_window(&model, window.positions, window.rows);
    MetalModel loaded(model);
    if (!expect(same_bits(run_calls(&loaded, lengths), expected_of(model, lengths)),
                "the CPU delegate's bits")) {
      std::fprintf(stderr, "a window of %zu in %zu rows: %s\n", window.positions, window.rows,
                   loaded.error().c_str());
      return false;
    }
  }
  return true;
}

/// A call cannot start where a ring no longer has the window.
bool starts_in_a_ring() {
  RandomModel model;
  set_window(&model, 9, 64);
  MetalModel loaded(model);
  run_calls(&loaded, {40, 40, 40});
  return expect(!loaded.run({1}, 110).empty(), "a start in the ring") &&
         expect(loaded.run({1}, 60).empty() && !loaded.error().empty(), "a start before the ring");
}

bool the_same_cache() {
  const RandomModel model;
  const std::vector<size_t> lengths = {20, 1};
  MetalModel loaded(model);
  test::LoadedModel reference(model, kernels::scalar::kVariant, 1);
  run_calls(&loaded, lengths);
  run_calls(&reference, lengths);
  const std::vector<uint8_t> saved = saved_cache(loaded.session());
  return expect(!saved.empty() && saved == saved_cache(reference.session()),
                "the CPU delegate's cache, byte by byte");
}

bool sessions() {
  const RandomModel model;
  char error[200] = "";
  MetalModel loaded(model);
  const std::vector<float> whole = run_calls(&loaded, {20, 5});
  const std::vector<float> last(whole.begin() + RandomModel::kVocabulary, whole.end());
  const int32_t session = loaded.session();
  const auto ok = [&](int code) { return expect(code == 0, error[0] != '\0' ? error : "success"); };
  if (!ok(thimble_cache_truncate(session, 20, error, sizeof(error)))) return false;
  const std::vector<uint8_t> saved = saved_cache(session);
  int32_t fork = 0;
  if (!ok(thimble_cache_fork(session, &fork, error, sizeof(error)))) return false;
  run_calls(&loaded, {7}, 3);  // other tokens at these positions
  if (!ok(thimble_cache_use(session, fork, error, sizeof(error))) ||
      !expect(same_bits(run_calls(&loaded, {5}, 20), last), "the fork's own cache")) {
    return false;
  }
  // A cache freed and another made where it lay: what is bound must be the one in use.
  if (!ok(thimble_cache_use(session, 0, error, sizeof(error))) ||
      !ok(thimble_cache_restore(session, saved.data(), saved.size(), error, sizeof(error))) ||
      !ok(thimble_cache_free(session, fork, error, sizeof(error))) ||
      !ok(thimble_cache_fork(session, &fork, error, sizeof(error))) ||
      !ok(thimble_cache_use(session, fork, error, sizeof(error)))) {
    return false;
  }
  return expect(same_bits(run_calls(&loaded, {5}, 20), last), "the restored cache");
}

/// What Metal has no kernel for is refused by its name.
bool refused_operators() {
  using kernels::Function;
  struct Refusal {
    void (*apply)(cpu::Program* program);
    const char* sentence;
  };
  const Refusal kRefusals[] = {
      {[](cpu::Program* p) { std::get<cpu::NormOp>(p->ops[9].kind).weight = {}; },
       "its operator Norm (op9) norms without a weight: export it with --delegate cpu"},
      {[](cpu::Program* p) {
         auto& norm = std::get<cpu::NormOp>(p->ops[9].kind);
         norm.num_heads = 6;
         norm.weight.length /= 6;
       },
       "its operator Norm (op9) normalizes each of 6 heads"},
      {[](cpu::Program* p) {
         std::get<cpu::LinearOp>(p->ops[4].kind).activation = Function::kGelu;
       },
       "its operator Linear (op4) gates by a function other than silu"},
      {[](cpu::Program* p) { std::get<cpu::AttentionOp>(p->ops[2].kind).soft_cap = 2; },
       "its operator Attention (op2) has a soft cap of its scores"},
      {[](cpu::Program* p) { std::get<cpu::GluOp>(p->ops[12].kind).activation = Function::kRelu; },
       "its operator Glu (op12) gates by a function other than silu"},
      {[](cpu::Program* p) {
         std::get<cpu::ElementwiseOp>(p->ops[14].kind).function = Function::kMultiply;
       },
       "its operator Elementwise (op14) is not an addition"},
      {[](cpu::Program* p) {
         auto& sum = std::get<cpu::ElementwiseOp>(p->ops[14].kind);
         sum.input = sum.other;
       },
       "its operator Elementwise (op14) adds into a third slot"},
      {[](cpu::Program* p) {
         const uint32_t slot = std::get<cpu::ElementwiseOp>(p->ops[14].kind).output;
         const auto& attention = std::get<cpu::AttentionOp>(p->ops[2].kind);
         p->ops[14].kind = cpu::RotateOp{slot, slot, 6, attention.cosines, attention.sines};
       },
       "its operator Rotate (op14) has no kernel"},
  };
  for (const Refusal& refusal : kRefusals) {
    RandomModel model;
    refusal.apply(&model.program);
    const std::string said = MetalModel(model).error();
    if (said.find(refusal.sentence) != std::string::npos) continue;
    std::fprintf(stderr, "said: %s\n", said.c_str());
    return expect(false, refusal.sentence);
  }
  return true;
}

bool refusals() {
  const auto refused = [](const RandomModel& model, int32_t type, const std::string& sentence) {
    const std::string said = MetalModel(model, type).error();
    if (said == sentence) return true;
    std::fprintf(stderr, "said: %s\n", said.c_str());
    return false;
  };
  MetalModel loaded{RandomModel()};
  return refused(RandomModel(), THIMBLE_CACHE_INT8,
                 "the Metal delegate's cache is float16 or float32, not int8: leave its type "
                 "out") &&
         refused(RandomModel(/*all_rows=*/true), THIMBLE_CACHE_DEFAULT,
                 "the Metal delegate does not take the program: it returns rows of all tokens: "
                 "export it with --delegate cpu") &&
         expect(loaded.run({1}, 1).empty() && !loaded.error().empty(),
                "a start behind the cache") &&
         expect(loaded.run({100}, 0).empty() && !loaded.error().empty(), "an unknown token");
}

const test::Case kCases[] = {
    {"same_bits_as_the_cpu_delegate", same_bits_as_the_cpu_delegate},
    {"chunks_and_splits", chunks_and_splits},
    {"windows", windows},
    {"starts_in_a_ring", starts_in_a_ring},
    {"the_same_cache", the_same_cache},
    {"sessions", sessions},
    {"refused_operators", refused_operators},
    {"refusals", refusals},
};

}  // namespace

int main(int argc, char** argv) { return test::run_cases(kCases, argc, argv); }
