// Caches of sliding windows, which keep the last positions alone: the bits of whole caches, and
// what cannot be had back.

#include <cstring>

#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/general_model.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::ring_test {
namespace {

using test::expect;
using test::GeneralModel;
using test::same_bits;

constexpr int32_t kTypes[] = {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_FLOAT32, THIMBLE_CACHE_INT8,
                              THIMBLE_CACHE_INT4, THIMBLE_CACHE_INT8_INT4};
/// The least, and what leaves some room; the second is no multiple of splits.
constexpr size_t kRows[] = {128, 320};

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

/// The first layer sees a window, the second all; `rows` of the first are kept, or 0: all.
GeneralModel windowed(size_t rows, size_t window = GeneralModel::kWindow) {
  GeneralModel model(GeneralModel::Form::kFused);
  model.program.caches[0].rows = rows;
  for (cpu::Op& op : model.program.ops) {
    auto* attention = std::get_if<cpu::AttentionOp>(&op.kind);
    if (attention != nullptr && attention->cache == 0) {
      attention->window = static_cast<uint32_t>(window);
    }
    auto* shared = std::get_if<cpu::SharedAttentionOp>(&op.kind);
    if (shared != nullptr && shared->cache == 0) shared->window = static_cast<uint32_t>(window);
  }
  return model;
}

struct Held {
  GeneralModel model;
};
/// A model and what was loaded of it.
struct LoadedModel : Held, test::LoadedModel {
  LoadedModel(GeneralModel model, const kernels::Variant& kernels, int32_t threads,
              int32_t cache_type = THIMBLE_CACHE_DEFAULT)
      : Held{std::move(model)}, test::LoadedModel(Held::model, kernels, threads, cache_type) {}
};

std::vector<int64_t> part(size_t first, size_t last) {
  const std::vector<int64_t> tokens = test::random_tokens(last);
  return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
}

/// Logits after each of several calls that follow one another, the first at 0.
std::vector<float> run_calls(LoadedModel* model, const std::vector<size_t>& lengths) {
  std::vector<float> all;
  size_t first = 0;
  for (const size_t length : lengths) {
    const std::vector<float> logits =
        model->run(part(first, first + length), static_cast<int64_t>(first));
    all.insert(all.end(), logits.begin(), logits.end());
    first += length;
  }
  return all;
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

/// In one call, in odd ones, and token by token, several times around.
bool bits_of_a_whole_cache() {
  std::vector<size_t> singles{1, 300, 299};
  singles.insert(singles.end(), 100, 1);
  for (const size_t window : {1, 50}) {
    for (const int32_t type : kTypes) {
      for (const std::vector<size_t>& lengths :
           {std::vector<size_t>{700}, {40, 1, 30, 1, 7, 300, 140, 1, 1, 60, 119}, singles}) {
        LoadedModel whole(windowed(0, window), kernels::scalar::kVariant, 1, type);
        const std::vector<float> expected = run_calls(&whole, lengths);
        for (const size_t rows : kRows) {
          for (const int32_t threads : {1, 3}) {
            LoadedModel ring(windowed(rows, window), best(), threads, type);
            if (!expect(same_bits(run_calls(&ring, lengths), expected), "a whole cache's bits")) {
              return false;
            }
          }
        }
      }
    }
  }
  return true;
}

bool truncates_as_far_as_it_reaches() {
  for (const size_t rows : kRows) {
    LoadedModel loaded(windowed(rows), best(), 2), whole(windowed(0), best(), 2);
    run_calls(&whole, {600});
    const int32_t session = loaded.session();
    run_calls(&loaded, {100});
    // Nothing is overwritten yet.
    if (!expect(thimble_cache_kept_by_truncate(session, 3) == 3, "a short history") ||
        !expect(truncate(session, 3) == 0, "a truncation")) {
      return false;
    }
    run_calls(&loaded, {599, 1});
    // The oldest position kept is the first of a block of 16; its window ends 49 further.
    const auto least = static_cast<int64_t>((600 - rows + 15) / 16 * 16 + 49);
    if (!expect(thimble_cache_kept_by_truncate(session, 700) == 600, "no more than it holds") ||
        !expect(thimble_cache_kept_by_truncate(session, least) == least, "the last that it can") ||
        !expect(thimble_cache_kept_by_truncate(session, least - 1) == 0, "nothing before it") ||
        !says(truncate(session, least - 1), "its sliding windows reach back to") ||
        !expect(loaded.run(part(300, 301), least - 1).empty(), "no call before it") ||
        !expect(loaded.error().find("start at one of " + std::to_string(least) + " to 600") !=
                    std::string::npos,
                "where a call may start") ||
        !expect(thimble_cache_length(session) == 600, "the cache as it was") ||
        !expect(truncate(session, least) == 0, "a truncation")) {
      return false;
    }
    const std::vector<int64_t> other = part(100, 150);
    if (!expect(same_bits(loaded.run(other, least), whole.run(other, least)), "another way on") ||
        !expect(thimble_cache_kept_by_truncate(session, least) == least, "the same again") ||
        !expect(truncate(session, 0) == 0, "a truncation to nothing") ||
        !expect(same_bits(run_calls(&loaded, {77}), run_calls(&whole, {77})), "a new text") ||
        !expect(thimble_cache_kept_by_truncate(session, 5) == 5, "a short history again")) {
      return false;
    }
  }
  return true;
}

/// Before the ring was written around, in its midst, and after a truncation.
bool saves_and_restores() {
  for (const int32_t type : kTypes) {
    for (const size_t length : {37, 128, 601, 640}) {
      LoadedModel writer(windowed(128), best(), 2, type);
      run_calls(&writer, {length + 5});
      if (truncate(writer.session(), static_cast<int64_t>(length)) != 0) return false;
      const std::vector<uint8_t> saved = save(writer.session());
      const int64_t start = static_cast<int64_t>(length);
      const std::vector<int64_t> next = part(length, length + 20);
      const std::vector<float> expected = writer.run(next, start);

      LoadedModel reader(windowed(128), kernels::scalar::kVariant, 3, type);
      run_calls(&reader, {333});
      if (!expect(restore(reader.session(), saved) == 0, "a restored cache") ||
          !expect(thimble_cache_length(reader.session()) == start, "its positions") ||
          !expect(save(reader.session()) == saved, "the same bytes again") ||
          !expect(same_bits(reader.run(next, start), expected), "what the writer computed")) {
        return false;
      }
    }
  }
  // What is saved depends on the tokens alone, and is less than all.
  LoadedModel ring(windowed(128), best(), 2), cut(windowed(128), best(), 1);
  LoadedModel whole(windowed(0), best(), 2);
  run_calls(&ring, {601});
  run_calls(&cut, {1, 250, 99, 251});
  run_calls(&whole, {601});
  const std::vector<uint8_t> saved = save(ring.session());
  LoadedModel empty(windowed(128), best(), 2);
  run_calls(&empty, {601});
  if (!expect(truncate(empty.session(), 0) == 0, "a truncation to nothing") ||
      !expect(restore(empty.session(), save(empty.session())) == 0, "nothing restored")) {
    return false;
  }
  return expect(saved == save(cut.session()), "the bytes of other chunks") &&
         expect(saved.size() < save(whole.session()).size() * 2 / 3, "fewer bytes") &&
         says(restore(whole.session(), saved), "another type of cache");
}

bool forks() {
  LoadedModel loaded(windowed(128), best(), 2), alone(windowed(128), best(), 2);
  const int32_t session = loaded.session();
  run_calls(&loaded, {500});
  run_calls(&alone, {500});
  const std::vector<float> expected = alone.run(part(500, 650), 500);
  int32_t fork = 0;
  if (!expect(thimble_cache_fork(session, &fork, error, sizeof(error)) == 0, "a fork"))
    return false;
  loaded.run(part(0, 150), 500);  // goes another way
  if (!expect(thimble_cache_use(session, fork, error, sizeof(error)) == 0, "its use") ||
      !expect(same_bits(loaded.run(part(500, 650), 500), expected), "as if it were alone")) {
    return false;
  }
  // In turns, from here on.
  LoadedModel other(windowed(128), best(), 2);
  run_calls(&other, {500});
  other.run(part(0, 150), 500);
  for (size_t at = 650; at < 690; at += 10) {
    const auto start = static_cast<int64_t>(at);
    for (const int32_t cache : {0, fork}) {
      LoadedModel& same = cache == 0 ? other : alone;
      const std::vector<int64_t> next = part(at - 600, at - 590);
      const std::vector<float> logits = loaded.run(next, start, cache);
      if (!expect(same_bits(logits, same.run(next, start)), "two ways, each by itself")) {
        return false;
      }
    }
  }
  return true;
}

bool refuses_impossible_rings() {
  struct Damage {
    size_t rows;
    size_t window;
    const char* sentence;
  };
  for (const Damage& damage :
       {Damage{100, 50, "a cache keeps 100 of 700 positions"},
        Damage{704, 50, "a cache keeps 704 of 700 positions"},
        Damage{128, 0, "sees 0 positions (0: all) of a cache that keeps 128"},
        Damage{64, 50, "sees 50 positions (0: all) of a cache that keeps 64"},
        Damage{128, 107, "sees 107 positions"},
        Damage{128, 4000000000, "sees 4000000000 positions"}}) {
    cpu::Program program = windowed(damage.rows, damage.window).program;
    const Status status = cpu::check_program(&program);
    if (!expect(status.message().find(damage.sentence) != std::string::npos, damage.sentence)) {
      return false;
    }
  }
  cpu::Program program = windowed(128, 106).program;  // leaves 8 rows
  return expect(cpu::check_program(&program).ok(), "the largest window of 128 rows");
}

const test::Suite suite("ring", {{"bits_of_a_whole_cache", bits_of_a_whole_cache},
                                 {"truncates_as_far_as_it_reaches", truncates_as_far_as_it_reaches},
                                 {"saves_and_restores", saves_and_restores},
                                 {"forks", forks},
                                 {"refuses_impossible_rings", refuses_impossible_rings}});

}  // namespace
}  // namespace thimble::ring_test
