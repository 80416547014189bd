#include "runner/runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "answer/answer.h"
#include "model/recorder.h"
#include "see/prompt_with_pictures.h"

namespace thimble {
namespace {

/// Tokens of a prompt in a call that can be interrupted: as many as the CPU delegate computes at a
/// time. What it computes does not depend on the parts.
constexpr int64_t kPromptPart = 256;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool is_set(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(); }

}  // namespace

Result<std::unique_ptr<Runner>> Runner::load(const std::string& path, const LoadOptions& options) {
  return load([&] { return PteFile::open(path, options.signer); }, options);
}

Result<std::unique_ptr<Runner>> Runner::load(const uint8_t* data, size_t size,
                                             const std::string& name, const LoadOptions& options) {
  return load([&] { return PteFile::open(data, size, name); }, options);
}

Result<std::unique_ptr<Runner>> Runner::load(const std::function<Result<PteFile>()>& open,
                                             const LoadOptions& options) {
  const Stopwatch watch;
  Result<std::shared_ptr<Model>> model = Model::load(open(), options);
  if (!model.ok()) return model.status();
  std::unique_ptr<Runner> runner(new Runner(std::move(*model), 0));
  runner->stats_.load_s = watch.seconds();
  return runner;
}

Runner::Runner(std::shared_ptr<Model> model, int32_t cache)
    : model_(std::move(model)), cache_(cache), sight_(Sight::load(program().open_program())) {
  stats_.model = model_->file().path();
  stats_.method = program().method();
  stats_.delegate = program().delegates();
  stats_.threads = program().threads();
  if (session() != nullptr) stats_.runs_with = session()->describe();
}

Runner::~Runner() {
  if (cache_ != 0) model_->give_up(cache_);
}

Status Runner::see(const Picture& picture, Pictures* text) const {
  if (!sight_.ok()) return sight_.status();
  return (*sight_)->see(picture, static_cast<size_t>(program().max_context_len()), text);
}

Result<std::vector<int32_t>> Runner::encode_prompt(std::string_view prompt,
                                                   const Pictures& pictures) const {
  if (!sight_.ok()) return sight_.status();
  return encode_with_pictures(**sight_, *model_, prompt, pictures);
}

Result<std::vector<int32_t>> Runner::encode_pieces(const std::vector<Piece>& pieces,
                                                   const Pictures& pictures) const {
  if (!sight_.ok()) return sight_.status();
  return encode_with_pictures(**sight_, *model_, pieces, pictures);
}

Status Runner::hold_pictures(const std::vector<int32_t>& tokens) {
  if (!sight_.ok()) return {};
  Result<Pictures> held = (*sight_)->hold(tokens);
  if (!held.ok()) return held.status();
  pictures_ = std::move(*held);
  return {};
}

Status Runner::choose_cache() const {
  if (session() == nullptr) return {};
  model_->free_given_up();
  return session()->use(cache_);
}

Status Runner::use_adapter(const std::string& name) {
  if (name == adapter()) return {};
  if (session() == nullptr) {
    return Status::error("there is no adapter " + name + ", because " + model_->file().path() +
                         " has none: export it with --delegate cpu and --adapter " + name + "=DIR");
  }
  Status status = choose_cache();
  if (status.ok()) status = session()->use_adapter(name);
  if (!status.ok()) return status;
  stats_.adapter = name;
  program().recorder().note("adapter", name.empty() ? "none" : name);
  cached_.clear();
  return {};
}

Status Runner::truncate(size_t length) {
  if (length > cached_.size()) {
    return Status::error("cannot truncate to " + std::to_string(length) +
                         " tokens: the cache holds " + std::to_string(cached_.size()));
  }
  if (sight_.ok() && (*sight_)->settings().both_ways) length = before_picture(cached_, length);
  const std::vector<int32_t> rest(cached_.begin(),
                                  cached_.begin() + static_cast<std::ptrdiff_t>(length));
  Status status = choose_table(length, length);
  if (status.ok()) status = rewind(std::min(length, cached_.size()));
  return status.ok() ? extend(rest, length, /*interrupted=*/nullptr).status() : status;
}

Status Runner::choose_table(size_t length, size_t kept) {
  if (program().original_context() == 0) return {};
  Status status = choose_cache();
  if (!status.ok()) return status;
  const bool is_long = program().is_long(length), changes = session()->uses_long_table() != is_long;
  status = session()->use_table(is_long);
  if (!status.ok() || !changes) return status;
  stats_.recomputed_tokens += static_cast<int64_t>(kept);
  cached_.clear();
  return {};
}

Status Runner::rewind(size_t length) {
  Status status = choose_cache();
  if (!status.ok()) return status;
  if (program().keeps_states() && length < cached_.size()) length = 0;
  if (session() != nullptr && session()->length() > static_cast<int64_t>(length)) {
    const Result<int64_t> kept = session()->rewind(static_cast<int64_t>(length));
    if (!kept.ok()) return kept.status();
    length = static_cast<size_t>(*kept);
  }
  cached_.resize(length);
  return {};
}

Result<SessionHandle*> Runner::own_session(const char* verb) const {
  Result<SessionHandle*> session = model_->session_for(verb);
  if (!session.ok()) return session;
  const Status status = choose_cache();
  if (!status.ok()) return status;
  return session;
}

Result<std::unique_ptr<Runner>> Runner::fork() const {
  const Result<SessionHandle*> session = own_session("forked");
  if (!session.ok()) return session.status();
  const Result<int32_t> cache = (*session)->fork();
  if (!cache.ok()) return cache.status();
  std::unique_ptr<Runner> runner(new Runner(model_, *cache));
  runner->cached_ = cached_;
  runner->conversations_.restore(conversations_.current());
  runner->stats_.adapter = stats_.adapter;
  runner->drafter_ = drafter_;
  runner->sight_ = sight_;
  runner->pictures_ = pictures_;
  return runner;
}

size_t Runner::common(const std::vector<int32_t>& tokens) const {
  const auto end = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
  return static_cast<size_t>(end.first - cached_.begin());
}

Status Runner::keep_common(const std::vector<int32_t>& tokens, size_t most) {
  const Status status = choose_table(tokens.size(), common(tokens));
  return status.ok() ? rewind(std::min(common(tokens), most)) : status;
}

Result<const float*> Runner::extend(const std::vector<int32_t>& tokens, size_t end,
                                    const std::atomic<bool>* interrupted) {
  const bool in_parts = interrupted != nullptr && session() != nullptr;
  const int64_t most =
      in_parts ? std::min(kPromptPart, program().max_seq_len()) : program().max_seq_len();
  const float* logits = nullptr;
  while (cached_.size() < end) {
    if (is_set(interrupted)) return nullptr;
    const size_t start = cached_.size();
    size_t count = std::min(end - start, static_cast<size_t>(most));
    if (sight_.ok()) count = (*sight_)->step(tokens, start, count);
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(start);
    const auto behind = begin + static_cast<std::ptrdiff_t>(count);
    const std::vector<int64_t> part(begin, behind);
    const bool sees = std::any_of(part.begin(), part.end(), is_row);
    const Result<const float*> result = sees ? read_rows(part, interrupted) : forward(part);
    if (!result.ok() || *result == nullptr) return result;
    logits = *result;
    cached_.insert(cached_.end(), begin, behind);
  }
  return logits;
}

Result<const float*> Runner::prefill(const std::vector<int32_t>& tokens,
                                     const std::atomic<bool>* interrupted) {
  // The last token is always computed: its logits are needed.
  const Status status = keep_common(tokens, tokens.size() - 1);
  if (!status.ok()) return status;
  const size_t kept = cached_.size();
  stats_.cached_tokens += static_cast<int64_t>(kept);
  const Result<const float*> logits = extend(tokens, tokens.size(), interrupted);
  stats_.prompt_tokens += static_cast<int64_t>(cached_.size() - kept);
  return logits;
}

Status Runner::logits(const std::vector<int32_t>& tokens, size_t first, size_t rows,
                      float* logits) {
  Status status = model_->check_context(tokens);
  if (!status.ok()) return status;
  if (first >= tokens.size()) {
    return Status::error("logits from token " + std::to_string(first) + " on were requested, but " +
                         std::to_string(tokens.size()) +
                         " tokens were given: request an earlier one");
  }
  const size_t last = first + std::min(rows, tokens.size() - first);
  status = keep_common(tokens, first);
  if (!status.ok()) return status;
  const Result<const float*> before = extend(tokens, first, /*interrupted=*/nullptr);
  if (!before.ok()) return before.status();
  const auto width = static_cast<size_t>(program().vocab_size());
  const auto most =
      program().runs_segments()
          ? static_cast<size_t>(std::min<int64_t>(THIMBLE_MOST_LOGIT_ROWS, program().max_seq_len()))
          : size_t{1};
  while (cached_.size() < last) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(cached_.size());
    const size_t count = std::min(most, last - cached_.size());
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    const Result<const float*> rows = forward(std::vector<int64_t>(begin, end), count);
    if (!rows.ok()) return rows.status();
    cached_.insert(cached_.end(), begin, end);
    logits = std::copy_n(*rows, count * width, logits);
  }
  return {};
}

Result<const float*> Runner::logits_after(const std::vector<int32_t>& tokens) {
  const Status fits = model_->check_context(tokens);
  if (!fits.ok()) return fits;
  return prefill(tokens, /*interrupted=*/nullptr);
}

Result<const float*> Runner::forward(const std::vector<int64_t>& tokens, size_t logit_rows) {
  const Result<RowPositions> positions = positions_of(tokens);
  if (!positions.ok()) return positions.status();
  const Result<const float*> logits =
      logit_rows == 1 && positions->empty()
          ? program().run(tokens, static_cast<int64_t>(cached_.size()))
          : program().run(tokens, {segment_of(tokens.size(), logit_rows, *positions)});
  count_recorded();
  return logits;
}

thimble_segment Runner::segment_of(size_t rows, size_t logit_rows,
                                   const RowPositions& positions) const {
  thimble_segment segment{};
  segment.cache = cache_;
  segment.start_pos = static_cast<int64_t>(cached_.size());
  segment.rows = static_cast<int64_t>(rows);
  segment.logit_rows = static_cast<int64_t>(logit_rows);
  positions.give(&segment);
  return segment;
}

Result<const float*> Runner::read_rows(const std::vector<int64_t>& tokens,
                                       const std::atomic<bool>* interrupted) {
  Sight& sight = **sight_;
  const Status computed = sight.compute(tokens, interrupted, &stats_.image_rows);
  if (!computed.ok()) return computed;
  if (is_set(interrupted)) return nullptr;
  const Result<RowPositions> positions = positions_of(tokens);
  if (!positions.ok()) return positions.status();
  std::vector<thimble_segment> segments;
  if (!positions->empty()) segments.push_back(segment_of(tokens.size(), 1, *positions));
  const Result<const float*> logits =
      sight.read(tokens, static_cast<int64_t>(cached_.size()), segments);
  count_recorded();
  return logits;
}

void Runner::count_recorded() {
  const Recorder::Fate fate = program().recorder().last_call();
  stats_.recorded_calls += fate == Recorder::Fate::kRecorded;
  stats_.dropped_calls += fate == Recorder::Fate::kDropped;
}

Result<const float*> Runner::advance(const std::vector<int32_t>& chosen, const Sampler& sampler,
                                     const std::atomic<bool>* interrupted) {
  const float* known = ahead_.follow(chosen);
  if (known != nullptr) {
    cached_.insert(cached_.end(), chosen.begin(), chosen.end());
    stats_.accepted_tokens += static_cast<int64_t>(chosen.size());
    return known;
  }
  Status status = drop_ahead();
  if (!status.ok()) return status;
  std::vector<int32_t> all = cached_;
  all.insert(all.end(), chosen.begin(), chosen.end());
  status = choose_table(all.size(), cached_.size());
  if (!status.ok()) return status;
  const bool anew = cached_.empty();
  if (anew || static_cast<int64_t>(chosen.size()) > program().max_seq_len()) {
    const Result<const float*> before =
        extend(all, all.size() - 1, anew ? interrupted : /*never*/ nullptr);
    if (!before.ok() || cached_.size() + 1 < all.size()) return before;
  }
  std::vector<int64_t> tokens(all.begin() + static_cast<std::ptrdiff_t>(cached_.size()), all.end());
  std::vector<int32_t> draft;
  const auto room = std::min(program().room_behind(all.size()),
                             program().max_seq_len() - static_cast<int64_t>(tokens.size()));
  if (drafter_ != nullptr && room > 0) {
    Result<std::vector<int32_t>> proposed = drafter_->propose(
        with_places(all), std::min(kMostDraft, static_cast<size_t>(room)), call_costs_, sampler);
    if (!proposed.ok()) return proposed.status();
    draft = std::move(*proposed);
  }
  tokens.insert(tokens.end(), draft.begin(), draft.end());
  const Stopwatch watch;
  const Result<const float*> logits = forward(tokens, draft.size() + 1);
  if (!logits.ok()) return logits;
  if (chosen.size() == 1) call_costs_.observe(draft.size(), watch.seconds());
  stats_.drafted_tokens += static_cast<int64_t>(draft.size());
  cached_ = std::move(all);
  ahead_.start(std::move(draft), *logits, static_cast<size_t>(program().vocab_size()));
  return logits;
}

Status Runner::drop_ahead() {
  const bool none = ahead_.left() == 0;
  ahead_ = {};
  return none ? Status() : truncate(cached_.size());
}

Status Runner::generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                        const TextCallback& on_text) {
  const std::vector<int32_t> text = with_places(tokens);
  Status status = model_->check_context(text);
  if (status.ok()) status = check_bias(options.sampler.changes, program().vocab_size());
  if (status.ok()) status = hold_pictures(tokens);
  if (!status.ok()) return status;
  Stopwatch watch;
  Result<const float*> logits = prefill(tokens, options.interrupted);
  stats_.prefill_s += watch.seconds();
  if (!logits.ok()) return logits.status();
  if (*logits == nullptr) {
    stats_.stop_reason = StopReason::kInterrupted;
    stats_.incomplete = options.constraint != nullptr;
    stats_.reasons = false;
    return {};
  }

  Answer answer(*model_, options, text, on_text, &stats_);
  Stopwatch decode_watch;
  for (bool first = true;; first = false) {
    status = answer.choose(*logits);
    if (first) {
      stats_.ttft_s = watch.seconds();
      decode_watch = Stopwatch();
    }
    if (!status.ok() || answer.ended()) break;
    logits = advance(answer.chosen(), answer.sampler(), options.interrupted);
    stats_.decode_s += decode_watch.seconds();
    decode_watch = Stopwatch();
    status = logits.status();
    if (status.ok() && *logits == nullptr) stats_.stop_reason = StopReason::kInterrupted;
    if (!status.ok() || answer.ended()) break;
    stats_.decoded_tokens += static_cast<int64_t>(answer.chosen().size());
  }
  if (answer.ended()) stats_.drafted_tokens -= static_cast<int64_t>(ahead_.left());
  const Status dropped = drop_ahead();
  if (!status.ok() || !dropped.ok()) return status.ok() ? dropped : status;
  answer.finish();
  return {};
}

size_t Runner::turns() const { return Conversations::turns(conversations_.current()); }

Stats Runner::fresh_stats() const {
  Stats stats;
  stats.model = stats_.model;
  stats.method = stats_.method;
  stats.delegate = stats_.delegate;
  stats.runs_with = stats_.runs_with;
  stats.adapter = stats_.adapter;
  stats.threads = stats_.threads;
  stats.load_s = stats_.load_s;
  return stats;
}

}  // namespace thimble
