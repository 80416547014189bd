// States of recurrent operators: the same bits whatever the calls, and what can be had back.

#include <cstring>

#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/hybrid_model.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::state_test {
namespace {

using test::expect;
using test::HybridModel;
using test::LoadedModel;
using test::same_bits;

constexpr auto kReturnRows = static_cast<int64_t>(cpu::kReturnRows);

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

/// The program as it is loaded.
cpu::Program checked() {
  cpu::Program program = test::HybridModel().program;
  if (!cpu::check_program(&program).ok()) std::abort();
  return program;
}

const HybridModel& hybrid() {
  static const HybridModel model;
  return model;
}

std::vector<int64_t> part(size_t first, size_t last) {
  const std::vector<int64_t> tokens = test::random_tokens(last);
  return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
}

/// The logits of the last of several calls that follow one another, the first at 0.
std::vector<float> run_calls(LoadedModel* model, const std::vector<size_t>& lengths) {
  std::vector<float> logits;
  size_t first = 0;
  for (const size_t length : lengths) {
    logits = model->run(part(first, first + length), static_cast<int64_t>(first));
    first += length;
  }
  return logits;
}

/// What a model computes that reads tokens for the first time: `length` of the text, then others.
std::vector<float> from_scratch(size_t length, const std::vector<int64_t>& others) {
  LoadedModel fresh(hybrid(), kernels::scalar::kVariant, 1);
  if (length > 0) run_calls(&fresh, {length});
  return fresh.run(others, static_cast<int64_t>(length));
}

char error[300];

bool says(int result, const char* sentence) {
  const bool said = result != 0 && std::strstr(error, sentence) != nullptr;
  if (!said) std::fprintf(stderr, "%d: %s\n", result, error);
  return expect(said, sentence);
}

std::vector<uint8_t> save(int32_t session) {
  std::vector<uint8_t> bytes(thimble_cache_size(session));
  const int result = thimble_cache_save(session, bytes.data(), bytes.size(), error, sizeof(error));
  return result == 0 ? bytes : std::vector<uint8_t>();
}

int restore(int32_t session, const std::vector<uint8_t>& bytes) {
  return thimble_cache_restore(session, bytes.data(), bytes.size(), error, sizeof(error));
}

int truncate(int32_t session, int64_t length) {
  return thimble_cache_truncate(session, length, error, sizeof(error));
}

bool chunks_leave_no_trace() {
  LoadedModel at_once(hybrid(), kernels::scalar::kVariant, 1);
  const std::vector<float> expected = run_calls(&at_once, {600});
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{250, 2, 248, 93, 7}, {600}, {599, 1}, {1, 1, 1, 297, 300}}) {
    if (!test::is_chosen()) continue;
    for (const int32_t threads : {1, 3}) {
      LoadedModel cut(hybrid(), best(), threads);
      if (!expect(same_bits(run_calls(&cut, lengths), expected), "the bits of one long call")) {
        return false;
      }
      // A new text begins without a trace of the last.
      if (!expect(same_bits(run_calls(&cut, lengths), expected), "the same at position 0")) {
        return false;
      }
    }
  }
  return true;
}

/// After a call of many rows, of one, and near the start.
bool returns_to_the_last_rows() {
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{300}, {290, 10}, {20, 1, 1}, {9}, {3}}) {
    size_t total = 0;
    for (const size_t length : lengths) total += length;
    const auto end = static_cast<int64_t>(total);
    for (int64_t back = 0; back <= std::min(end, kReturnRows); ++back) {
      if (!test::is_chosen()) continue;
      LoadedModel loaded(hybrid(), best(), 2), called(hybrid(), best(), 2);
      run_calls(&loaded, lengths);
      run_calls(&called, lengths);
      const int64_t length = end - back;
      const std::vector<int64_t> others = part(100, 111);
      const std::vector<float> expected = from_scratch(static_cast<size_t>(length), others);
      if (!expect(thimble_cache_kept_by_truncate(loaded.session(), length) == length, "a length") ||
          !expect(truncate(loaded.session(), length) == 0, "a truncation") ||
          !expect(same_bits(loaded.run(others, length), expected), "another way on") ||
          !expect(same_bits(called.run(others, length), expected), "a call that starts earlier")) {
        return false;
      }
    }
  }
  return true;
}

/// Calls of a few wrong rows, of which the next takes back some: the logits of right rows alone.
bool drafts_leave_no_trace() {
  LoadedModel drafts(hybrid(), best(), 2), plain(hybrid(), kernels::scalar::kVariant, 1);
  for (size_t end = 0, step = 1; end < 120; ++step) {
    const size_t right = 1 + step % 5;
    std::vector<int64_t> rows = part(end, end + right);
    const std::vector<float> expected = plain.run(rows, static_cast<int64_t>(end));
    const std::vector<int64_t> wrong = part(300, 300 + step % (kReturnRows + 1 - right));
    rows.insert(rows.end(), wrong.begin(), wrong.end());
    drafts.run(rows, static_cast<int64_t>(end));
    rows.resize(right);  // and the last right one again, for its logits
    if (!expect(
            same_bits(drafts.run({rows.back()}, static_cast<int64_t>(end + right - 1)), expected),
            "the logits without drafts")) {
      return false;
    }
    end += right;
  }
  return true;
}

/// Far behind, a snapshot is had back, and the rest is computed again.
bool returns_to_snapshots() {
  const size_t interval = checked().snapshot_interval();
  if (!expect(interval == 16, "64 snapshots of 700 positions")) return false;
  for (const size_t length : {400, 397, 160, 17, 15, 1}) {
    if (!test::is_chosen()) continue;
    LoadedModel loaded(hybrid(), best(), 3), called(hybrid(), best(), 2);
    for (LoadedModel* model : {&loaded, &called}) run_calls(model, {1, 30, 250, 300});
    const auto wanted = static_cast<int64_t>(length);
    const auto kept = static_cast<int64_t>(length / interval * interval);
    const std::vector<int64_t> others = part(100, 111);
    const std::vector<float> expected = from_scratch(static_cast<size_t>(kept), others);
    if (!expect(thimble_cache_kept_by_truncate(loaded.session(), wanted) == kept, "a snapshot") ||
        (kept < wanted &&
         (!says(truncate(loaded.session(), wanted), "the last states up to there are kept of") ||
          !expect(called.run(others, wanted).empty(), "no call between snapshots"))) ||
        !expect(truncate(loaded.session(), kept) == 0, "a truncation") ||
        !expect(same_bits(loaded.run(others, kept), expected), "what it would be at first") ||
        !expect(same_bits(called.run(others, kept), expected), "a call that starts there")) {
      return false;
    }
    // From there on, snapshots are those of the new text.
    const int64_t end = kept + 11, last = end / 16 * 16;
    loaded.run(part(200, 240), end);
    called.run(part(200, 240), end);
    if (last > 0 && !expect(truncate(loaded.session(), last) == 0, "an old or a new one")) {
      return false;
    }
    const int64_t next = last > 0 ? last : end + 40;
    if (!expect(same_bits(loaded.run(others, next), called.run(others, next)), "the new text")) {
      return false;
    }
  }
  return true;
}

bool saves_and_restores() {
  for (const size_t length : {1, 2, 5, 37, 601}) {
    LoadedModel writer(hybrid(), best(), 2), cut(hybrid(), kernels::scalar::kVariant, 1);
    run_calls(&writer, {length + 5});
    run_calls(&cut, length > 3 ? std::vector<size_t>{1, 2, length - 3} : std::vector{length});
    if (truncate(writer.session(), static_cast<int64_t>(length)) != 0) return false;
    const std::vector<uint8_t> saved = save(writer.session());
    if (!expect(saved == save(cut.session()), "bytes that depend on the tokens alone")) {
      return false;
    }
    const std::vector<int64_t> next = part(length, length + 20);
    const auto start = static_cast<int64_t>(length);
    const std::vector<float> expected = writer.run(next, start);
    LoadedModel reader(hybrid(), kernels::scalar::kVariant, 3);
    run_calls(&reader, {333});
    if (!expect(restore(reader.session(), saved) == 0, "a restored cache") ||
        !expect(save(reader.session()) == saved, "the same bytes again") ||
        !expect(same_bits(reader.run(next, start), expected), "what the writer computed")) {
      return false;
    }
    // The snapshots came along.
    const int64_t kept = start / 2 / 16 * 16;
    const std::vector<float> middle = from_scratch(static_cast<size_t>(kept), next);
    if (!expect(restore(reader.session(), saved) == 0, "a restored cache") ||
        !expect(truncate(reader.session(), kept) == 0, "a truncation") ||
        !expect(same_bits(reader.run(next, kept), middle), "the state in the midst")) {
      return false;
    }
  }
  return true;
}

bool forks() {
  LoadedModel loaded(hybrid(), best(), 2);
  const int32_t session = loaded.session();
  run_calls(&loaded, {100});
  int32_t fork = 0;
  if (!expect(thimble_cache_fork(session, &fork, error, sizeof(error)) == 0, "a fork")) {
    return false;
  }
  const std::vector<int64_t> one = part(100, 130), other = part(0, 30);
  const std::vector<float> expected[] = {from_scratch(100, one), from_scratch(100, other)};
  return expect(same_bits(loaded.run(one, 100, 0), expected[0]), "the one way") &&
         expect(same_bits(loaded.run(other, 100, fork), expected[1]), "the other") &&
         expect(loaded.run(one, 100, fork).empty(), "no way back so far") &&
         expect(loaded.error().find("kept of position 96: start at 96") != std::string::npos,
                "the reason");
}

bool programs_share_states() {
  LoadedModel first(hybrid(), best(), 2);
  LoadedModel second(hybrid(), best(), first);
  if (!expect(second.error().empty(), "two programs of one session")) return false;
  run_calls(&first, {50});
  const std::vector<int64_t> next = part(50, 70);
  if (!expect(same_bits(second.run(next, 50), from_scratch(50, next)), "what the first began")) {
    return false;
  }
  const Status clash =
      cpu::find_session(first.session())
          ->add_program(5, {}, {}, {{"conv.0", {HybridModel::kTaps, HybridModel::kHidden, 12}}})
          .status();
  return expect(clash.message().find("conv.0 has 4 rows of 36 numbers") != std::string::npos,
                "a state of another geometry");
}

/// The first convolution.
cpu::ConvolutionOp& convolution(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    if (auto* kind = std::get_if<cpu::ConvolutionOp>(&op.kind)) return *kind;
  }
  std::abort();
}

cpu::DeltaOp& delta(cpu::Program* program) {
  for (cpu::Op& op : program->ops) {
    if (auto* kind = std::get_if<cpu::DeltaOp>(&op.kind)) return *kind;
  }
  std::abort();
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { delta(p).num_key_heads = 3; }, "has 3 heads of 6 for keys, 4 of 10"},
    {[](cpu::Program* p) { delta(p).key_head_dim = 0; }, "has 2 heads of 0 for keys"},
    {[](cpu::Program* p) { delta(p).key_head_dim = 7; }, "keeps 1 states of 384 numbers"},
    {[](cpu::Program* p) { delta(p).value_head_dim = 11; }, "keeps 3 inputs of 64 numbers"},
    {[](cpu::Program* p) { delta(p).state = delta(p).inputs; }, "uses state 2 of another"},
    {[](cpu::Program* p) { delta(p).a = delta(p).output; }, "wants 4 columns in slot"},
    {[](cpu::Program* p) { delta(p).a_log.length = 3; }, "has 3 floats from"},
    {[](cpu::Program* p) { p->states[3].rows = 2; }, "keeps 2 states of 384 numbers"},
    {[](cpu::Program* p) { convolution(p).state = 4; }, "uses state 4 of 4"},
    {[](cpu::Program* p) { convolution(p).state = 1; }, "uses state 1 of another"},
    {[](cpu::Program* p) { convolution(p).input = 0; }, "wants 108 columns in slot 0"},
    {[](cpu::Program* p) { convolution(p).output = 1; }, "wants 36 columns in slot 1"},
    {[](cpu::Program* p) { convolution(p).weight.length = 0; }, "has 0 floats from"},
    {[](cpu::Program* p) { convolution(p).bias.length = 7; }, "has 7 floats from"},
    {[](cpu::Program* p) { p->states[0].rows = 16; }, "keeps 16 rows of a state"},
    {[](cpu::Program* p) { p->states[0].rows = 0; }, "a state has 0 rows of 36 numbers"},
    {[](cpu::Program* p) { p->states[0].name.clear(); }, "a state has no name"},
    {[](cpu::Program* p) { p->states[0].name = p->caches[0].name; }, "two caches have the name"},
    {[](cpu::Program* p) { p->inputs.pop_back(); }, "it has a cache, and takes no position"},
};

bool damaged_programs() { return test::all_are_refused(hybrid().program, kDamages); }

const test::Suite suite("state", {{"chunks_leave_no_trace", chunks_leave_no_trace},
                                  {"returns_to_the_last_rows", returns_to_the_last_rows},
                                  {"drafts_leave_no_trace", drafts_leave_no_trace},
                                  {"returns_to_snapshots", returns_to_snapshots},
                                  {"saves_and_restores", saves_and_restores},
                                  {"forks", forks},
                                  {"programs_share_states", programs_share_states},
                                  {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::state_test
