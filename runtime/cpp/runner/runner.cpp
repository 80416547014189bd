#include "runner/runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runner/threads.h"
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

const uint8_t* bytes_of(std::string_view blob) {
  return reinterpret_cast<const uint8_t*>(blob.data());
}

bool is_set(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(); }

}  // namespace

Result<std::unique_ptr<Runner>> Runner::load(const std::string& path, int32_t threads,
                                             Profile* profile) {
  const Stopwatch watch;
  Result<PteFile> file = PteFile::open(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<Runner> runner(new Runner(std::move(*file)));
  runner->stats_.model = path;
  runner->stats_.threads = set_threads(threads);
  Result<std::unique_ptr<Program>> program = Program::load(runner->file_, profile);
  if (!program.ok()) return program.status();
  runner->program_ = std::move(*program);
  const Status status = runner->load_tokenizer();
  if (!status.ok()) return status;
  runner->load_chat_template();
  runner->stats_.load_s = watch.seconds();
  return runner;
}

Status Runner::load_tokenizer() {
  const std::string_view blob = program_->named_data("thimble.tokenizer");
  if (blob.empty()) {
    return Status::error(file_.path() + " holds no tokenizer: export it with python -m exporter");
  }
  Result<Tokenizer> tokenizer = Tokenizer::load(bytes_of(blob), blob.size());
  if (!tokenizer.ok()) {
    return Status::error("cannot load the tokenizer of " + file_.path() + ": " +
                         tokenizer.message());
  }
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
  end_ids_ = tokenizer_->eos_ids();
  end_ids_.insert(end_ids_.end(), program_->eos_ids().begin(), program_->eos_ids().end());
  // BOS can only begin another text: a model that writes it has ended this one.
  if (tokenizer_->bos_id() >= 0) end_ids_.push_back(tokenizer_->bos_id());
  return {};
}

void Runner::load_chat_template() {
  const std::string_view blob = program_->named_data("thimble.chat_template");
  if (blob.empty()) {
    chat_template_error_ = file_.path() +
                           " has no chat template: run it with -p instead of --chat, or export a "
                           "checkpoint that has one";
    return;
  }
  Result<ChatTemplate> chat_template = ChatTemplate::load(bytes_of(blob), blob.size());
  if (!chat_template.ok()) {
    chat_template_error_ = chat_template.message();
    return;
  }
  // One that was only stored as text fails here rather than behind the first question.
  const auto probe = chat_template->render({{"user", "Hello"}}, /*add_generation_prompt=*/true);
  if (!probe.ok()) {
    chat_template_error_ = probe.message();
    return;
  }
  chat_template_ = std::make_unique<ChatTemplate>(std::move(*chat_template));
}

Result<std::vector<int32_t>> Runner::encode_prompt(std::string_view prompt) const {
  const int32_t bos_id = tokenizer_->bos_id();
  if (prompt.empty() && bos_id < 0) {
    return Status::error(
        "the prompt is empty and the model has no BOS token to start from: pass some text");
  }
  std::vector<int32_t> tokens = tokenizer_->encode(prompt, /*parse_special=*/true);
  const bool has_bos = !tokens.empty() && tokens.front() == bos_id;
  if (prompt.empty() || (tokenizer_->adds_bos() && !has_bos)) {
    tokens.insert(tokens.begin(), bos_id);
  }
  return tokens;
}

Status Runner::check_context(const std::vector<int32_t>& tokens) const {
  if (tokens.empty()) return Status::error("the prompt has no tokens: pass some text");
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > program_->max_context_len()) {
    return Status::error("the prompt has " + std::to_string(count) +
                         " tokens, but the model's context holds " +
                         std::to_string(program_->max_context_len()) +
                         ": shorten it, or export with a larger --max-context-len");
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= program_->vocab_size()) {
      return Status::error("the prompt has token " + std::to_string(token) +
                           ", but the model's vocabulary ends at " +
                           std::to_string(program_->vocab_size() - 1) +
                           ": export the model with its own tokenizer");
    }
  }
  return {};
}

Result<const float*> Runner::prefill(const std::vector<int32_t>& tokens,
                                     const std::atomic<bool>* interrupted) {
  // The last token is always computed: its logits are wanted.
  const auto common = std::mismatch(cached_.begin(), cached_.end(), tokens.begin(), tokens.end());
  const size_t reusable = static_cast<size_t>(common.first - cached_.begin());
  cached_.resize(std::min(reusable, tokens.size() - 1));
  const float* logits = nullptr;
  while (cached_.size() < tokens.size() && !is_set(interrupted)) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(cached_.size());
    const int64_t count = std::min<int64_t>(tokens.end() - begin, program_->max_seq_len());
    const Result<const float*> result = program_->forward(
        std::vector<int64_t>(begin, begin + count), static_cast<int64_t>(cached_.size()));
    if (!result.ok()) return result;
    logits = *result;
    cached_.insert(cached_.end(), begin, begin + count);
    stats_.prompt_tokens += count;
  }
  return logits;
}

Result<const float*> Runner::step(int32_t token) {
  const Result<const float*> logits =
      program_->forward({token}, static_cast<int64_t>(cached_.size()));
  if (logits.ok()) cached_.push_back(token);
  return logits;
}

bool Runner::ends_answer(int32_t token) const {
  return std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
}

Status Runner::generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                        const TextCallback& on_text) {
  const Status fits = check_context(tokens);
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
    return tokenizer_->token_bytes(token).empty();
  });
  TokenStream stream(*tokenizer_, at_start);
  Stopwatch decode_watch;
  for (int64_t generated = 1;; ++generated) {
    const int32_t token = sampler.sample(*logits, static_cast<int32_t>(program_->vocab_size()));
    if (generated == 1) {
      stats_.ttft_s = watch.seconds();
      decode_watch = Stopwatch();
    }
    if (token < 0) {
      return Status::error("the model's logits at position " + std::to_string(cached_.size() - 1) +
                           " are not numbers: check the file with --verify");
    }
    ++stats_.generated_tokens;
    if (ends_answer(token)) {
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
    if (static_cast<int64_t>(cached_.size()) == program_->max_context_len()) {
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

void Runner::reset() {
  cached_.clear();
  Stats stats;
  stats.model = stats_.model;
  stats.threads = stats_.threads;
  stats.load_s = stats_.load_s;
  stats_ = std::move(stats);
}

}  // namespace thimble
