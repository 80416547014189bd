// Adapters kept apart from the weights: the same bits however the work is cut up, none without cost
// to the bits of the model alone, and a cache that belongs to one of them.

#include <cstring>
#include <variant>

#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "kernels/shared/half.h"
#include "tests/delegate/damage.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::adapter_test {
namespace {

using test::expect;
using test::LoadedModel;
using test::RandomModel;
using test::same_bits;

char error[300];

/// RandomModel with the adapters "all", which changes every linear of the layers, and "queries",
/// which changes the first rows of the first.
class AdaptedModel : public RandomModel {
 public:
  AdaptedModel() {
    program.adapters = {{"all", "adapter 0"}, {"queries", "adapter 1"}};
    adapter_numbers.resize(2);
    bool first = true;
    for (cpu::Op& op : program.ops) {
      auto* linear = std::get_if<cpu::LinearOp>(&op.kind);
      if (linear == nullptr || linear->last_row) continue;
      const cpu::Weight& weight = program.weights[linear->weight];
      const auto width = static_cast<uint32_t>(program.slots[linear->output].width);
      if (linear->gated) {
        add(linear, 0, 0, width, 5, weight.columns);
        add(linear, 0, kernels::kBlockRows, width, 3, weight.columns);
      } else {  // two parts, which meet in the middle of a block
        add(linear, 0, 0, 21, 4, weight.columns);
        add(linear, 0, 21, width - 21, 17, weight.columns);
      }
      if (first) add(linear, 1, 0, 30, 2, weight.columns);
      first = false;
    }
  }

 private:
  void add(cpu::LinearOp* linear, uint32_t adapter, uint32_t first_row, uint32_t rows,
           uint32_t rank, size_t columns) {
    std::vector<uint16_t>& numbers = adapter_numbers[adapter];
    const uint64_t a = numbers.size(), b = a + rank * columns;
    for (const float value : reals(rank * (columns + kernels::round_up(rows, 16)), 0.3f)) {
      numbers.push_back(kernels::float_to_half(value));
    }
    linear->low_rank.push_back({adapter, first_row, rows, rank, a, b, 0.7f});
  }
};

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

bool use(const LoadedModel& loaded, const char* name) {
  return thimble_cache_use_adapter(loaded.session(), name, error, sizeof(error)) == 0;
}

/// Logits after each of several calls that follow one another.
std::vector<float> run_calls(LoadedModel* model, const std::vector<size_t>& lengths) {
  std::vector<float> all;
  size_t start = 0, total = 0;
  for (const size_t length : lengths) total += length;
  const std::vector<int64_t> tokens = test::random_tokens(total);
  for (const size_t length : lengths) {
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(start);
    const std::vector<float> logits =
        model->run({from, from + static_cast<std::ptrdiff_t>(length)}, static_cast<int64_t>(start));
    all.insert(all.end(), logits.begin(), logits.end());
    start += length;
  }
  return all;
}

const std::vector<size_t> kLengths = {13, 1, 1, 2, 5, 8, 9, 1};

bool every_variant_and_thread_count() {
  const AdaptedModel model;
  for (const char* name : {"all", "queries"}) {
    LoadedModel reference(model, kernels::scalar::kVariant, 1);
    if (!expect(use(reference, name), name)) return false;
    const std::vector<float> expected = run_calls(&reference, kLengths);
    for (const kernels::Variant* variant : kernels::all_variants()) {
      if ((variant->required & ~kernels::cpu_features()) != 0) continue;
      for (const int32_t threads : {1, 2, 3, 7}) {
        LoadedModel loaded(model, *variant, threads);
        if (!use(loaded, name)) return false;
        if (!expect(same_bits(run_calls(&loaded, kLengths), expected), variant->name)) return false;
      }
    }
  }
  return true;
}

bool chunks_leave_no_trace() {
  const AdaptedModel model;
  LoadedModel at_once(model, best(), 3);
  if (!use(at_once, "all")) return false;
  const std::vector<float> expected = run_calls(&at_once, {568});
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{263, 265, 40}, {1, 300, 267}, {250, 250, 67, 1}}) {
    LoadedModel cut(model, best(), 2);
    if (!use(cut, "all")) return false;
    const std::vector<float> all = run_calls(&cut, lengths);
    const std::vector<float> last(all.end() - RandomModel::kVocabulary, all.end());
    if (!expect(same_bits(last, expected), "the logits of one long call")) return false;
  }
  return true;
}

bool none_is_the_model_alone() {
  const RandomModel plain;
  const AdaptedModel adapted;
  LoadedModel reference(plain, best(), 2), loaded(adapted, best(), 2);
  const std::vector<float> expected = run_calls(&reference, kLengths);
  if (!expect(same_bits(run_calls(&loaded, kLengths), expected), "the model's own bits")) {
    return false;
  }
  std::vector<std::vector<float>> others;
  for (const char* name : {"all", "queries"}) {
    if (!use(loaded, name)) return false;
    others.push_back(run_calls(&loaded, kLengths));
    if (!expect(!same_bits(others.back(), expected), "a change")) return false;
  }
  return expect(!same_bits(others[0], others[1]), "two adapters") && use(loaded, "") &&
         expect(same_bits(run_calls(&loaded, kLengths), expected), "the model's own bits again");
}

bool a_cache_has_one_adapter() {
  const AdaptedModel model;
  LoadedModel loaded(model, best(), 2);
  const int32_t session = loaded.session();
  run_calls(&loaded, {20});
  if (!expect(thimble_session_adapters(session) == 2, "two adapters") ||
      !expect(std::strcmp(thimble_session_adapter_name(session, 1), "queries") == 0, "a name") ||
      !expect(*thimble_session_adapter_name(session, 2) == '\0', "no third name") ||
      !expect(*thimble_cache_adapter(session) == '\0', "none at first") ||
      !expect(!use(loaded, "other"), "no other adapter") ||
      !expect(std::strcmp(error, "there is no adapter other: the model has all, queries") == 0,
              error) ||
      !expect(thimble_cache_length(session) == 20, "the cache as it was") ||
      !expect(use(loaded, "") && thimble_cache_length(session) == 20, "no change") ||
      !expect(use(loaded, "all") && thimble_cache_length(session) == 0, "an empty cache") ||
      !expect(loaded.run({1}, 20).empty(), "no call behind the end")) {
    return false;
  }
  run_calls(&loaded, {20});
  int32_t fork = 0;
  if (thimble_cache_fork(session, &fork, error, sizeof(error)) != 0) return false;
  const std::vector<float> expected = loaded.run({5, 6}, 20);
  if (thimble_cache_use(session, fork, error, sizeof(error)) != 0) return false;
  return expect(std::strcmp(thimble_cache_adapter(session), "all") == 0, "the fork's adapter") &&
         expect(same_bits(loaded.run({5, 6}, 20), expected), "the fork's logits") &&
         expect(use(loaded, "queries"), "another one in the fork") &&
         expect(thimble_cache_use(session, 0, error, sizeof(error)) == 0, "the first cache") &&
         expect(std::strcmp(thimble_cache_adapter(session), "all") == 0, "its own adapter") &&
         expect(thimble_cache_length(session) == 22, "its positions");
}

std::vector<uint8_t> save(int32_t session) {
  std::vector<uint8_t> bytes(thimble_cache_size(session));
  const int result = thimble_cache_save(session, bytes.data(), bytes.size(), error, sizeof(error));
  return result == 0 ? bytes : std::vector<uint8_t>();
}

/// Two sequences in one call, with one adapter, and with one each.
bool segments_share_an_adapter() {
  const AdaptedModel model;
  LoadedModel loaded(model, best(), 2);
  int32_t other = 0;
  const std::vector<int64_t> tokens = test::random_tokens(12);
  const std::vector<int64_t> first(tokens.begin(), tokens.begin() + 5);
  const std::vector<int64_t> second(tokens.begin() + 5, tokens.end());
  if (!use(loaded, "all") ||
      thimble_cache_fork(loaded.session(), &other, error, sizeof(error)) != 0) {
    return expect(false, "a fork");
  }
  loaded.run(first, 0, 0);
  std::vector<float> expected = loaded.run({first.back()}, 4, 0);
  const std::vector<float> of_second = loaded.run(second, 0, other);
  expected.insert(expected.end(), of_second.begin(), of_second.end());
  std::vector<float> logits(2 * RandomModel::kVocabulary);
  std::vector<int64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const std::vector<cpu::Segment> segments = {{0, 0, 5, 1}, {other, 0, 7, 1}};
  if (!expect(loaded.run(segments, both, logits.data()).empty() &&
                  loaded.error().find("do not follow one another") != std::string::npos,
              "rows with logits that are apart, refused")) {
    return false;
  }
  const std::vector<cpu::Segment> apart = {{0, 4, 1, 1}, {other, 0, 7, 0}};
  both.erase(both.begin(), both.begin() + 4);
  loaded.run(apart, both, logits.data());
  const std::vector<cpu::Segment> together = {{0, 4, 1, 1}, {other, 6, 1, 1}};
  const bool ran = !loaded.run(together, {first.back(), second.back()}, logits.data()).empty();
  return expect(ran && same_bits(logits, expected), "the bits of calls alone") &&
         expect(use(loaded, "queries"), "another adapter for the first") &&
         expect(loaded.run({{0, 0, 1, 1}, {other, 6, 1, 1}}, {1, 2}, logits.data()).empty() &&
                    loaded.error().find("different adapters") != std::string::npos,
                "two adapters in a call, refused");
}

bool restores(const LoadedModel& loaded, const std::vector<uint8_t>& saved, const char* sentence) {
  error[0] = '\0';
  const int result =
      thimble_cache_restore(loaded.session(), saved.data(), saved.size(), error, sizeof(error));
  return expect((result == 0) == (*sentence == '\0') && std::strstr(error, sentence), error);
}

bool a_saved_cache_has_one_adapter() {
  const AdaptedModel model;
  LoadedModel writer(model, best(), 2), reader(model, best(), 2);
  run_calls(&writer, {20});
  const std::vector<uint8_t> plain = save(writer.session());
  if (!use(writer, "all")) return false;
  const std::vector<uint8_t> empty = save(writer.session());
  run_calls(&writer, {20});
  const std::vector<uint8_t> saved = save(writer.session());
  const std::vector<float> expected = writer.run({5, 6}, 20);
  std::vector<uint8_t> cut(saved.begin(), saved.begin() + 25);
  return restores(reader, saved, "computed with the adapter all, and the current cache has no") &&
         restores(reader, empty, "computed with the adapter all") && restores(reader, plain, "") &&
         expect(use(reader, "queries"), "another") &&
         restores(reader, saved, "the current cache has the adapter queries: choose the same") &&
         restores(reader, plain, "computed with no adapter") && expect(use(reader, "all"), "it") &&
         restores(reader, cut, "its checksum is wrong") && restores(reader, empty, "") &&
         restores(reader, saved, "") &&
         expect(same_bits(reader.run({5, 6}, 20), expected), "what the writer computed");
}

bool no_adapters() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 1);
  return expect(thimble_session_adapters(loaded.session()) == 0, "no adapters") &&
         expect(!use(loaded, "a"), "none of that name") &&
         expect(std::strstr(error, "because the model has none: export it with --adapter a=DIR"),
                error);
}

cpu::LinearOp* first_linear(cpu::Program* program) {
  return &std::get<cpu::LinearOp>(program->ops[1].kind);
}

const test::Damage kDamages[] = {
    {[](cpu::Program* p) { first_linear(p)->low_rank[0].adapter = 2; }, "uses adapter 2 of 2"},
    {[](cpu::Program* p) { first_linear(p)->low_rank[0].rank = 0; }, "has the rank 0"},
    {[](cpu::Program* p) { first_linear(p)->low_rank[1].rows += 1; }, "rows from 21 on of 144"},
    {[](cpu::Program* p) { first_linear(p)->low_rank[0].scale = NAN; }, "not a number"},
    {[](cpu::Program* p) { first_linear(p)->low_rank[0].a = UINT64_MAX; }, "numbers from"},
    {[](cpu::Program* p) { p->adapters[1].name = "all"; }, "have the name all"},
    {[](cpu::Program* p) { p->adapters[1].key = ""; }, "no name or no key"},
};

bool damaged_programs() { return test::all_are_refused(AdaptedModel().program, kDamages); }

const test::Suite suite("adapter",
                        {{"every_variant_and_thread_count", every_variant_and_thread_count},
                         {"chunks_leave_no_trace", chunks_leave_no_trace},
                         {"none_is_the_model_alone", none_is_the_model_alone},
                         {"a_cache_has_one_adapter", a_cache_has_one_adapter},
                         {"segments_share_an_adapter", segments_share_an_adapter},
                         {"a_saved_cache_has_one_adapter", a_saved_cache_has_one_adapter},
                         {"no_adapters", no_adapters},
                         {"damaged_programs", damaged_programs}});

}  // namespace
}  // namespace thimble::adapter_test
