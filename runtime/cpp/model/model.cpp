#include "model/model.h"

#include <algorithm>
#include <new>

#include "core/bytes.h"
#include "core/longer_context.h"
#include "model/open_program.h"

namespace thimble {
Result<std::shared_ptr<Model>> Model::load(Result<PteFile> file, const LoadOptions& options) {
  if (!file.ok()) return file.status();
  if (file->has("thimble.signature") && !file->has("thimble.tokenizer")) {
    return Status::error(file->path() +
                         " takes tensors, not text: run it with --input FILE.npy and --output "
                         "FILE.npy, or as a Program");
  }
  std::shared_ptr<Model> model(new Model(std::move(*file)));
  Result<std::unique_ptr<LoadedMethod>> program =
      LoadedMethod::load(OpenProgram::open(model->file_, options), kForward);
  if (!program.ok()) return program.status();
  model->program_ = std::move(*program);
  const SessionHandle* session = model->program_->session();
  if (session != nullptr) model->adapters_ = session->adapters();
  const Status status = model->load_tokenizer();
  if (!status.ok()) return status;
  model->load_chat_template();
  return model;
}

Status Model::load_tokenizer() {
  const std::string_view blob = program_->named_data("thimble.tokenizer");
  if (blob.empty()) {
    return Status::error(file_.path() + " has no tokenizer: export it with thimble-export");
  }
  Result<Tokenizer> tokenizer = Tokenizer::load(bytes_of(blob), blob.size());
  if (!tokenizer.ok()) {
    return Status::error("cannot load the tokenizer of " + file_.path() + ": " +
                         tokenizer.message());
  }
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
  end_ids_ = tokenizer_->eos_ids();
  end_ids_.insert(end_ids_.end(), program_->eos_ids().begin(), program_->eos_ids().end());
  // BOS begins a new text, so a model that generates it has ended this one.
  if (tokenizer_->bos_id() >= 0) end_ids_.push_back(tokenizer_->bos_id());
  return {};
}

void Model::load_chat_template() {
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
  // A template stored only as text fails here rather than at the first question.
  const auto probe = chat_template->render({{"user", "Hello"}}, /*add_generation_prompt=*/true);
  if (!probe.ok()) chat_template_error_ = probe.message();
  chat_template_ = std::make_unique<ChatTemplate>(std::move(*chat_template));
}

Result<std::vector<int32_t>> Model::encode_prompt(std::string_view prompt) const {
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

Status Model::check_context(const std::vector<int32_t>& tokens) const {
  if (tokens.empty()) return Status::error("the prompt has no tokens: pass some text");
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > program_->max_context_len()) {
    return Status::error(
        "the prompt has " + std::to_string(count) + " tokens, but the model's context holds " +
        std::to_string(program_->max_context_len()) + ": shorten it, or " + export_longer());
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= program_->vocab_size()) {
      return Status::error("the prompt has token " + std::to_string(token) +
                           ", which is not one of the model's " +
                           std::to_string(program_->vocab_size()));
    }
  }
  return {};
}

bool Model::ends_answer(int32_t token) const {
  return std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
}

Result<std::unique_ptr<Constraint>> Model::compile(const ConstraintText& text,
                                                   const StillWanted& wanted) {
  if (text.kind == ConstraintText::Kind::kNone) return std::unique_ptr<Constraint>();
  Result<std::shared_ptr<const Vocabulary>> known = vocabulary();
  if (!known.ok()) return known.status();
  return Constraint::compile(text, std::move(*known), wanted);
}

Result<std::shared_ptr<const Vocabulary>> Model::vocabulary() {
  const std::lock_guard lock(vocabulary_mutex_);
  if (vocabulary_ != nullptr) return vocabulary_;
  if (!tokenizer_->decoder().joins_texts()) {
    return Status::error(file_.path() +
                         " has a tokenizer whose tokens read otherwise beside others: constraints "
                         "need one whose tokens are pieces of the text");
  }
  vocabulary_ = std::make_shared<Vocabulary>(*tokenizer_, end_ids_,
                                             static_cast<size_t>(program_->vocab_size()));
  return vocabulary_;
}

Result<SessionHandle*> Model::session_for(const char* verb) const {
  if (program_->session() != nullptr) return program_->session();
  return Status::error(file_.path() + " has a key/value cache that cannot be " + verb +
                       ": export it with --delegate cpu");
}

void Model::give_up(int32_t cache) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    given_up_.push_back(cache);
  } catch (const std::bad_alloc&) {  // it stays as long as the model does
  }
}

void Model::free_given_up() {
  const std::lock_guard lock(mutex_);
  for (const int32_t cache : given_up_) program_->session()->free(cache);
  given_up_.clear();
}

}  // namespace thimble
