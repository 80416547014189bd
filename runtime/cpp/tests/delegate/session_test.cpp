// Sessions, and the KV cache as a value.

#include <cstring>

#include "delegate/program/call_check.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::session_test {
namespace {

using test::expect;
using test::LoadedModel;
using test::RandomModel;
using test::same_bits;

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

/// What the last failed call said.
char error[300];

bool says(int result, const char* sentence) {
  const bool said = result != 0 && std::strstr(error, sentence) != nullptr;
  if (!said) std::fprintf(stderr, "%d: %s\n", result, error);
  error[0] = '\0';
  return expect(said, sentence);
}

std::vector<int64_t> part(size_t first, size_t last) {
  const std::vector<int64_t> tokens = test::random_tokens(last);
  return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
}

std::vector<uint8_t> save(int32_t session) {
  std::vector<uint8_t> bytes(thimble_cache_size(session));
  const int result = thimble_cache_save(session, bytes.data(), bytes.size(), error, sizeof(error));
  return result == 0 ? bytes : std::vector<uint8_t>();
}

int restore(int32_t session, const std::vector<uint8_t>& bytes) {
  return thimble_cache_restore(session, bytes.data(), bytes.size(), error, sizeof(error));
}

bool truncates() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 2);
  loaded.run(part(0, 20), 0);
  const std::vector<float> expected = loaded.run(part(20, 25), 20);
  loaded.run(part(25, 40), 25);
  const int32_t session = loaded.session();
  return expect(thimble_cache_length(session) == 40, "40 positions") &&
         says(thimble_cache_truncate(session, 41, error, sizeof(error)), "to 41 positions") &&
         says(thimble_cache_truncate(session, -1, error, sizeof(error)), "to -1 positions") &&
         expect(thimble_cache_truncate(session, 20, error, sizeof(error)) == 0, "a truncation") &&
         expect(thimble_cache_length(session) == 20, "20 positions") &&
         expect(loaded.run({1}, 21).empty(), "no call behind the end") &&
         expect(same_bits(loaded.run(part(20, 25), 20), expected), "what was computed before");
}

bool saves_and_restores() {
  const RandomModel model;
  for (const int32_t type : {THIMBLE_CACHE_FLOAT16, THIMBLE_CACHE_FLOAT32, THIMBLE_CACHE_INT8,
                             THIMBLE_CACHE_INT4, THIMBLE_CACHE_INT8_INT4}) {
    LoadedModel writer(model, best(), 2, type);
    writer.run(part(0, 37), 0);
    const std::vector<uint8_t> saved = save(writer.session());
    const std::vector<float> expected = writer.run(part(37, 41), 37);

    LoadedModel reader(model, kernels::scalar::kVariant, 3, type);
    reader.run(part(0, 50), 0);
    if (!expect(restore(reader.session(), saved) == 0, "a restored cache") ||
        !expect(thimble_cache_length(reader.session()) == 37, "37 positions") ||
        !expect(save(reader.session()) == saved, "the same bytes again") ||
        !expect(same_bits(reader.run(part(37, 41), 37), expected), "what the writer computed")) {
      return false;
    }
  }
  return true;
}

bool refuses_what_it_did_not_save() {
  const RandomModel model;
  const RandomModel other(true);
  LoadedModel loaded(model, best(), 1);
  cpu::Program changed = model.program;
  loaded.run(part(0, 20), 0);
  std::vector<uint8_t> saved = save(loaded.session());
  LoadedModel float32(model, best(), 1, THIMBLE_CACHE_FLOAT32);
  float32.run(part(0, 9), 0);
  const std::vector<float> expected = float32.run(part(9, 10), 9);
  std::vector<uint8_t> damaged = saved, shorter = saved, longer = saved;
  damaged[damaged.size() / 2] ^= 1;
  shorter.resize(30);
  longer.push_back(0);
  uint8_t byte = 0;
  return says(restore(float32.session(), saved), "another type of cache") &&
         says(restore(loaded.session(), damaged), "its checksum is wrong") &&
         says(restore(loaded.session(), longer), "its checksum is wrong") &&
         says(restore(loaded.session(), shorter), "not a saved KV cache") &&
         says(thimble_cache_restore(loaded.session(), &byte, 1, error, sizeof(error)),
              "not a saved KV cache") &&
         says(thimble_cache_save(loaded.session(), damaged.data(), 8, error, sizeof(error)),
              "it takes exactly") &&
         expect(thimble_cache_length(float32.session()) == 10, "10 positions") &&
         expect(same_bits(float32.run(part(9, 10), 9), expected), "the cache as it was");
}

bool forks() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 2);
  const int32_t session = loaded.session();
  loaded.run(part(0, 30), 0);
  int32_t fork = 0;
  if (!expect(thimble_cache_fork(session, &fork, error, sizeof(error)) == 0, "a fork")) {
    return false;
  }
  const std::vector<float> expected = loaded.run(part(30, 35), 30);
  loaded.run({7, 7, 7}, 10);  // overwrites what the fork keeps
  if (!expect(thimble_cache_use(session, fork, error, sizeof(error)) == 0, "its use") ||
      !expect(thimble_cache_length(session) == 30, "30 positions") ||
      !expect(same_bits(loaded.run(part(30, 35), 30), expected), "what the first computed") ||
      !says(thimble_cache_free(session, fork, error, sizeof(error)), "cannot free cache")) {
    return false;
  }
  return expect(thimble_cache_use(session, 0, error, sizeof(error)) == 0, "the first again") &&
         expect(thimble_cache_length(session) == 13, "13 positions") &&
         says(thimble_cache_free(session, 0, error, sizeof(error)), "cannot free cache 0") &&
         expect(thimble_cache_free(session, fork, error, sizeof(error)) == 0, "its end") &&
         says(thimble_cache_use(session, fork, error, sizeof(error)), "there is no cache");
}

bool two_programs_share_a_session() {
  const RandomModel model;
  LoadedModel first(model, best(), 2);
  const auto session = cpu::find_session(first.session());
  const size_t alone = thimble_cache_size(first.session());
  const auto second =
      session->add_program(5, {{"other", {2, 16, 64, kernels::CacheType::kFloat16}}});
  const size_t both = thimble_cache_size(first.session());
  first.run(part(0, 10), 0);
  const std::vector<uint8_t> saved = save(first.session());
  session->remove_program(*second);
  return expect(second.ok() && both == alone + 2 * 4 + 5 * 4 + 4, "caches of both") &&
         says(restore(first.session(), saved), "another program") &&
         expect(thimble_cache_size(first.session()) < saved.size(), "caches of one");
}

/// Programs with caches of one name, as a file's methods are, go on where the other ended.
bool programs_share_caches() {
  const RandomModel model;
  LoadedModel alone(model, best(), 2), first(model, best(), 2);
  LoadedModel second(model, best(), first);
  const int32_t session = first.session();
  alone.run(part(0, 20), 0);
  const std::vector<float> expected = alone.run(part(20, 25), 20);
  first.run(part(0, 20), 0);
  int32_t fork = 0;
  if (!expect(same_bits(second.run(part(20, 25), 20), expected), "the first program's positions") ||
      !expect(thimble_cache_fork(session, &fork, error, sizeof(error)) == 0, "a fork") ||
      !expect(thimble_cache_use(session, fork, error, sizeof(error)) == 0, "its use") ||
      !expect(same_bits(second.run(part(20, 25), 20), expected), "the same in a fork")) {
    return false;
  }
  // The same keys and values, once, behind a header of two programs.
  const size_t header = 2 * 4 + 2 * 5 * 4;
  alone.run({1}, 24);
  return expect(thimble_cache_size(session) == thimble_cache_size(alone.session()) + header,
                "shared caches saved once");
}

bool refuses_another_geometry() {
  const RandomModel model;
  LoadedModel first(model, best(), 1);
  const auto session = cpu::find_session(first.session());
  const auto other =
      session->add_program(5, {{"new", {2, 16, 64, kernels::CacheType::kFloat16}},
                               {"layers.1", {3, 12, 64, kernels::CacheType::kFloat16}}});
  const std::string sentence =
      "the program's cache layers.1 has 3 heads of 12 numbers, 64 positions, float16, and the one "
      "of that name in its session 3 heads of 12 numbers, 700 positions, float16: load it in "
      "another session";
  if (other.message() != sentence) std::fprintf(stderr, "%s\n", other.message().c_str());
  return expect(other.message() == sentence, "a refusal") &&
         expect(!first.run({1, 2, 3}, 0).empty(), "the first program as it was");
}

bool bad_sessions() {
  thimble_session_options options{257, 0, 0};
  int32_t session = 0;
  bool right = says(thimble_session_open(&options, &session, error, sizeof(error)),
                    "257 threads are not possible: give 1 to 256");
  options = {1, 9, 0};
  right = right && says(thimble_session_open(&options, &session, error, sizeof(error)),
                        "there is no type of cache 9");
  options = {0, 0, 0};
  right =
      right &&
      expect(thimble_session_open(&options, &session, error, sizeof(error)) == 0, "a session") &&
      expect(thimble_session_threads(session) >= 1, "as many threads as cores") &&
      expect(std::strcmp(thimble_session_describe(session), "") == 0, "nothing to describe");
  thimble_session_close(session);
  thimble_session_close(session);
  char cut[8] = "xxxxxxx";
  return right && says(thimble_cache_truncate(session, 0, error, sizeof(error)), "no session") &&
         expect(thimble_cache_truncate(session, 0, cut, sizeof(cut)) != 0, "an error") &&
         expect(std::strcmp(cut, "there i") == 0, "a sentence cut to size") &&
         expect(thimble_cache_length(session) == 0 && thimble_cache_size(session) == 0, "nothing");
}

int use_table(int32_t session, int32_t table) {
  return thimble_cache_use_table(session, table, error, sizeof(error));
}

bool a_cache_has_one_rotary_table() {
  const RandomModel model(/*all_rows=*/false, /*original=*/30);
  LoadedModel loaded(model, best(), 2), other(model, best(), 2);
  const int32_t session = loaded.session();
  const std::vector<float> expected = other.run(part(0, 40), 0);  // which chooses by itself
  const std::vector<float> shorter = other.run(part(0, 20), 0);
  loaded.run(part(0, 20), 0);
  if (!expect(thimble_session_original_context(session) == 30, "the original context") ||
      !expect(loaded.run(part(20, 31), 20).empty(), "no call past it") ||
      !says(use_table(session, 3), "there is no rotary table 3") ||
      !expect(use_table(session, THIMBLE_TABLE_SHORT) == 0, "the table that it has") ||
      !expect(thimble_cache_length(session) == 20, "the positions stay") ||
      !expect(use_table(session, THIMBLE_TABLE_LONG) == 0, "the other table") ||
      !expect(thimble_cache_length(session) == 0, "which empties it")) {
    return false;
  }
  loaded.run(part(0, 20), 0);  // the first part of a longer text
  const std::vector<uint8_t> saved = save(session);
  int32_t fork = 0;
  if (!expect(same_bits(loaded.run(part(20, 40), 20), expected), "as in one call") ||
      !expect(use_table(session, THIMBLE_TABLE_SHORT) == 0, "the first table again") ||
      !expect(same_bits(loaded.run(part(0, 20), 0), shorter), "of a short text") ||
      !expect(restore(session, saved) == 0, "a restored cache") ||
      !expect(thimble_cache_table(session) == THIMBLE_TABLE_LONG, "with its table") ||
      !expect(thimble_cache_fork(session, &fork, error, sizeof(error)) == 0, "a fork") ||
      !expect(use_table(session, THIMBLE_TABLE_SHORT) == 0, "the first one of the fork's source")) {
    return false;
  }
  const std::vector<cpu::Segment> segments{{fork, 20, 20, 1}};
  return expect(same_bits(loaded.run(segments, part(20, 40), nullptr), expected), "of the fork") &&
         expect(same_bits(loaded.run(part(0, 20), 0), shorter), "of its source");
}

const test::Suite suite("session", {{"truncates", truncates},
                                    {"saves_and_restores", saves_and_restores},
                                    {"refuses_what_it_did_not_save", refuses_what_it_did_not_save},
                                    {"forks", forks},
                                    {"two_programs_share_a_session", two_programs_share_a_session},
                                    {"programs_share_caches", programs_share_caches},
                                    {"refuses_another_geometry", refuses_another_geometry},
                                    {"a_cache_has_one_rotary_table", a_cache_has_one_rotary_table},
                                    {"bad_sessions", bad_sessions}});

}  // namespace
}  // namespace thimble::session_test
