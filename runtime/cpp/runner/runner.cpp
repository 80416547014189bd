#include "runner/runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runner/session_file.h"
#include "tokenizer/token_stream.h"

namespace thimble {
namespace {

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
  return load([&path] { return PteFile::open(path); }, options);
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
    : model_(std::move(model)), cache_(cache) {
  stats_.model = model_->file().path();
  stats_.method = program().method();
  stats_.delegate = program().delegates();
  stats_.threads = program().threads();
  if (session() != nullptr) stats_.runs_with = session()->describe();
}

Runner::~Runner() {
  if (cache_ != 0) model_->give_up(cache_);
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
  const std::vector<int32_t> wanted(cached_.begin(),
                                    cached_.begin() + static_cast<std::ptrdiff_t>(length));
  const Status status = rewind(length);
  return status.ok() ? extend(wanted, length, /*interrupted=*/nullptr).status() : status;
}

Status Runner::rewind(size_t length) {
  Status status = choose_cache();
  if (!status.ok()) return status;
  auto kept = static_cast<int64_t>(length);
  if (session() != nullptr && session()->length() > kept) {
    kept = session()->kept_by_truncate(kept);
    status = session()->truncate(kept);
  }
  if (status.ok()) cached_.resize(static_cast<size_t>(kept));
  return status;
}

Result<SessionHandle*> Runner::own_session(const char* verb) const {
  Result<SessionHandle*> session = model_->session_for(verb);
  if (!session.ok()) return session;
  const Status status = choose_cache();
  if (!status.ok()) return status;
  return session;
}

Status Runner::save(const std::string& path) const {
  const Result<SessionHandle*> session = own_session("saved");
  if (!session.ok()) return session.status();
  const Status allowed = model_->file().check_output(path);
  if (!allowed.ok()) return allowed;
  SavedSession saved;
  saved.fingerprint = model_->file().fingerprint();
  saved.tokens = cached_;
  saved.messages = conversation_;
  const Status status = (*session)->save(&saved.cache);
  return status.ok() ? write_session(path, saved) : status;
}

Status Runner::restore(const std::string& path) {
  const Result<SessionHandle*> session = own_session("restored");
  if (!session.ok()) return session.status();
  Result<SavedSession> saved = read_session(path, model_->file().fingerprint());
  if (!saved.ok()) return saved.status();
  const Status status = (*session)->restore(saved->cache.data(), saved->cache.size());
  if (!status.ok()) {
    return Status::error("cannot restore the session " + path + ": " + status.message());
  }
  cached_ = std::move(saved->tokens);
  if ((*session)->length() == static_cast<int64_t>(cached_.size())) {
    conversation_ = std::move(saved->messages);
    return {};
  }
  cached_.clear();
  (void)(*session)->truncate(0).ok();
  return Status::error("the session " + path +
                       " has different numbers of positions and tokens: delete it");
}

Result<std::unique_ptr<Runner>> Runner::fork() const {
  const Result<SessionHandle*> session = own_session("forked");
  if (!session.ok()) return session.status();
  const Result<int32_t> cache = (*session)->fork();
  if (!cache.ok()) return cache.status();
  std::unique_ptr<Runner> runner(new Runner(model_, *cache));
  runner->cached_ = cached_;
  runner->conversation_ = conversation_;
  runner->stats_.adapter = stats_.adapter;
  return runner;
}

Status Runner::keep_common(const std::vector<int32_t>& tokens, size_t most) {
  const auto common = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
  return rewind(std::min(static_cast<size_t>(common.first - cached_.begin()), most));
}

Result<const float*> Runner::extend(const std::vector<int32_t>& tokens, size_t end,
                                    const std::atomic<bool>* interrupted) {
  const float* logits = nullptr;
  while (cached_.size() < end && !is_set(interrupted)) {
    const size_t start = cached_.size();
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(start);
    const auto count = static_cast<std::ptrdiff_t>(
        std::min<int64_t>(static_cast<int64_t>(end - start), program().max_seq_len()));
    const Result<const float*> result = forward(std::vector<int64_t>(begin, begin + count));
    if (!result.ok()) return result;
    logits = *result;
    cached_.insert(cached_.end(), begin, begin + count);
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

Status Runner::logits(const std::vector<int32_t>& tokens, size_t first, float* logits) {
  Status status = model_->check_context(tokens);
  if (!status.ok()) return status;
  if (first >= tokens.size()) {
    return Status::error("logits from token " + std::to_string(first) + " on were requested, but " +
                         std::to_string(tokens.size()) +
                         " tokens were given: request an earlier one");
  }
  status = keep_common(tokens, first);
  if (!status.ok()) return status;
  const Result<const float*> before = extend(tokens, first, /*interrupted=*/nullptr);
  if (!before.ok()) return before.status();
  const auto width = static_cast<size_t>(program().vocab_size());
  for (size_t at = first; at < tokens.size(); ++at) {
    const Result<const float*> row = step(tokens[at]);
    if (!row.ok()) return row.status();
    logits = std::copy_n(*row, width, logits);
  }
  return {};
}

Result<const float*> Runner::forward(const std::vector<int64_t>& tokens) {
  const Result<const float*> logits = program().run(tokens, static_cast<int64_t>(cached_.size()));
  const Recorder::Fate fate = program().recorder().last_call();
  stats_.recorded_calls += fate == Recorder::Fate::kRecorded;
  stats_.dropped_calls += fate == Recorder::Fate::kDropped;
  return logits;
}

Result<const float*> Runner::step(int32_t token) {
  const Result<const float*> logits = forward({token});
  if (logits.ok()) cached_.push_back(token);
  return logits;
}

Status Runner::generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                        const TextCallback& on_text) {
  const Status fits = model_->check_context(tokens);
  if (!fits.ok()) return fits;
  Stopwatch watch;
  Result<const float*> logits = prefill(tokens, options.interrupted);
  stats_.prefill_s += watch.seconds();
  if (!logits.ok()) return logits.status();
  if (*logits == nullptr) {
    stats_.stop_reason = StopReason::kInterrupted;
    return {};
  }

  Sampler sampler(options.sampler);
  const bool at_start = std::all_of(tokens.begin(), tokens.end(), [this](int32_t token) {
    return tokenizer().token_bytes(token).empty();
  });
  TokenStream stream(tokenizer(), at_start);
  Stopwatch decode_watch;
  for (int64_t generated = 1;; ++generated) {
    const int32_t token = sampler.sample(*logits, static_cast<int32_t>(program().vocab_size()));
    if (generated == 1) {
      stats_.ttft_s = watch.seconds();
      decode_watch = Stopwatch();
    }
    if (token < 0) {
      return Status::error("the model's logits at position " + std::to_string(cached_.size() - 1) +
                           " are not numbers: check the file with --verify");
    }
    ++stats_.generated_tokens;
    if (model_->ends_answer(token)) {
      stats_.stop_reason = StopReason::kEos;
      break;
    }
    const std::string text = stream.push(token);
    if (is_set(options.interrupted) || (!text.empty() && !on_text(text))) {
      stats_.stop_reason = StopReason::kInterrupted;
      break;
    }
    if (generated == options.max_new_tokens) {
      stats_.stop_reason = StopReason::kLength;
      break;
    }
    if (static_cast<int64_t>(cached_.size()) == program().max_context_len()) {
      stats_.stop_reason = StopReason::kContextFull;
      break;
    }
    logits = step(token);
    stats_.decode_s += decode_watch.seconds();
    decode_watch = Stopwatch();
    if (!logits.ok()) return logits.status();
    ++stats_.decoded_tokens;
  }
  const std::string rest = stream.finish();
  if (!rest.empty()) on_text(rest);
  return {};
}

size_t Runner::turns() const {
  return static_cast<size_t>(
      std::count_if(conversation_.begin(), conversation_.end(),
                    [](const Message& message) { return message.role == "assistant"; }));
}

void Runner::clear_stats() {
  Stats stats;
  stats.model = stats_.model;
  stats.method = stats_.method;
  stats.delegate = stats_.delegate;
  stats.runs_with = stats_.runs_with;
  stats.adapter = stats_.adapter;
  stats.threads = stats_.threads;
  stats.load_s = stats_.load_s;
  stats_ = std::move(stats);
}

}  // namespace thimble
