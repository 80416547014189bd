#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <new>
#include <utility>

#include "draft/ngram_drafter.h"
#include "see/row_positions.h"

namespace thimble {
namespace {

/// Whether it is the next token of an answer alone.
bool is_answer(const SequenceRows& part) { return part.rows == 1 && part.gets_logits; }

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const Runner& runner, const EngineOptions& options) {
  const std::shared_ptr<Model>& model = runner.shared_model();
  const LoadedMethod& program = model->program();
  if (!program.runs_segments()) {
    return Status::error(model->file().path() +
                         " cannot run several sequences at once, because it does not run on the "
                         "CPU delegate as a whole: export it with --delegate cpu");
  }
  if (runner.drafter() != nullptr && runner.drafter()->another() == nullptr) {
    return Status::error(
        "the draft is a model, which guesses for one text at a time: to run several sequences at "
        "once, use the draft ngram, or none");
  }
  EngineOptions fitting = options;
  const auto room = static_cast<int32_t>(std::min<int64_t>(program.max_seq_len(), INT32_MAX));
  fitting.sequences = std::min(options.sequences, room);
  fitting.prompt_rows = std::max(std::min(options.prompt_rows, room - fitting.sequences + 1), 1);
  Result<Slots> slots = Slots::create(model, runner.cache(), runner.adapter(),
                                      static_cast<size_t>(fitting.sequences));
  if (!slots.ok()) return slots.status();
  const Result<std::shared_ptr<Sight>> sight = runner.sight();
  return std::unique_ptr<Engine>(new Engine(model, sight.ok() ? *sight : nullptr, fitting,
                                            std::move(*slots), runner.drafter(),
                                            runner.fresh_stats()));
}

Engine::~Engine() {
  const auto end_all = [](const auto& sequences) {
    for (const auto& sequence : sequences) {
      try {
        sequence->end({});
      } catch (const std::bad_alloc&) {  // the others may need less
      }
    }
  };
  end_all(running_);
  end_all(waiting_);
}

Result<int64_t> Engine::submit(Request request) {
  if (request.tokens.empty()) return Status::error("the request has no tokens: give at least one");
  Status fits = model_->check_context(with_places(request.tokens));
  if (fits.ok() && sight_ != nullptr) {
    Result<Pictures> held = sight_->hold(request.tokens);
    fits = held.ok() ? check_whole(request.tokens, *held) : held.status();
    if (held.ok()) request.pictures = std::move(*held);
  }
  if (fits.ok()) {
    fits = check_bias(request.options.sampler.changes, model_->program().vocab_size());
  }
  if (!fits.ok()) return fits;
  const std::vector<std::string>& adapters = model_->adapters();
  if (!request.adapter.empty() &&
      std::find(adapters.begin(), adapters.end(), request.adapter) == adapters.end()) {
    std::string names;
    for (const std::string& name : adapters) names += (names.empty() ? "" : ", ") + name;
    return Status::error("there is no adapter " + request.adapter + ": the model has " +
                         (names.empty() ? "none" : names));
  }
  Result<std::unique_ptr<Constraint>> constraint =
      constraints_.take(request.constraint, request.wanted);
  if (!constraint.ok()) return constraint.status();
  request.predicted = model_->tokenizer().encode(request.options.prediction, false);
  const auto context = static_cast<size_t>(model_->program().max_context_len());
  request.predicted.resize(std::min(request.predicted.size(), context));
  const std::lock_guard<std::mutex> lock(mutex_);
  // Those that wait for the next step only, because a place is free, are not in the queue.
  const auto places = static_cast<size_t>(options_.sequences);
  if (running_.size() + waiting_.size() >= places + static_cast<size_t>(options_.queue)) {
    return Status::error("the queue is full: " + std::to_string(options_.queue) +
                         " requests wait; try again later");
  }
  const int64_t id = next_id_++;
  waiting_.push_back(
      std::make_unique<Sequence>(id, std::move(request), stats_, std::move(*constraint)));
  return id;
}

void Engine::cancel(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& sequence : waiting_) {
    if (sequence->id() == id) sequence->cancel();
  }
  for (const auto& sequence : running_) {
    if (sequence->id() == id) sequence->cancel();
  }
}

void Engine::end(size_t index, const Status& status) {
  std::unique_ptr<Sequence> sequence;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sequence = std::move(running_[index]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  slots_.release(sequence->slot());
  sequence->end(status);
  constraints_.give(sequence->constraint_text(), sequence->take_constraint());
}

void Engine::drop_cancelled() {
  for (size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->cancelled()) end(i, {});
  }
  std::vector<std::unique_ptr<Sequence>> dropped;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto kept = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [](const auto& one) { return !one->cancelled(); });
    std::move(kept, waiting_.end(), std::back_inserter(dropped));
    waiting_.erase(kept, waiting_.end());
  }
  for (const auto& sequence : dropped) sequence->end({});
}

void Engine::admit() {
  while (slots_.any_free()) {
    std::unique_ptr<Sequence> sequence;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.empty()) return;
      sequence = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const Result<size_t> slot = slots_.take(sequence->tokens(), sequence->adapter());
    if (!slot.ok()) {
      sequence->end(slot.status());
      continue;
    }
    sequence->start(*model_, with_places(sequence->tokens()), *slot, slots_[*slot].tokens.size(),
                    drafter_of(*sequence));
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.push_back(std::move(sequence));
  }
}

std::unique_ptr<Drafter> Engine::drafter_of(const Sequence& sequence) const {
  if (!sequence.prediction().empty()) {
    return std::make_unique<NgramDrafter>(sequence.prediction());
  }
  return drafter_ != nullptr ? drafter_->another() : nullptr;
}

std::vector<size_t> Engine::next_to_run() const {
  const std::string& adapter = running_[turn_ % running_.size()]->adapter();
  std::vector<size_t> next;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->adapter() == adapter) next.push_back(i);
  }
  return next;
}

Status Engine::fit_caches() {
  if (model_->program().original_context() == 0) return {};
  for (const auto& sequence : running_) {
    const size_t length = slots_[sequence->slot()].tokens.size() + sequence->next().size();
    const Result<std::vector<int32_t>> held = slots_.fit(sequence->slot(), length);
    if (!held.ok()) return held.status();
    if (!held->empty()) sequence->read_anew(*held);
  }
  return {};
}

std::vector<SequenceRows> Engine::next_rows() {
  const std::vector<size_t> group = next_to_run();
  std::vector<size_t> ready;
  for (const size_t index : group) ready.push_back(running_[index]->next().size());
  const auto answers = static_cast<size_t>(std::count(ready.begin(), ready.end(), size_t{1}));
  std::vector<SequenceRows> parts =
      divide(ready, turn_ % ready.size(), prompt_share_.rows(answers_s(answers)));
  for (SequenceRows& part : parts) part.sequence = group[part.sequence];
  ++turn_;
  if (sight_ != nullptr) keep_pictures_whole(&parts);
  return parts;
}

void Engine::keep_pictures_whole(std::vector<SequenceRows>* parts) const {
  int64_t rows = 0;
  for (SequenceRows& part : *parts) {
    const std::vector<int32_t>& next = running_[part.sequence]->next();
    part.rows = sight_->step(next, 0, part.rows);
    rows += static_cast<int64_t>(part.rows);
    if (part.rows == next.size() && !part.gets_logits) {  // the text ends with the picture
      *parts = {{part.sequence, part.rows, true}};
      return;
    }
  }
  if (rows <= model_->program().max_seq_len()) return;
  *parts = {*std::max_element(parts->begin(), parts->end(), [](const auto& one, const auto& other) {
    return one.rows < other.rows;
  })};
}

Status Engine::add_drafts(std::vector<SequenceRows>* parts) {
  const auto answers = static_cast<size_t>(std::count_if(parts->begin(), parts->end(), is_answer));
  const bool drafts = std::any_of(parts->begin(), parts->end(), [&](const SequenceRows& part) {
    return running_[part.sequence]->drafts();
  });
  if (!drafts || answers == 0) return {};
  const CallCosts& costs = costs_[answers];
  if (answers == parts->size() && costs.needs_plain()) return {};
  size_t rows = 0, with_logits = 0;
  for (const SequenceRows& part : *parts) {
    rows += part.rows;
    with_logits += part.gets_logits ? 1 : 0;
  }
  const LoadedMethod& program = model_->program();
  size_t room = std::min(static_cast<size_t>(program.max_seq_len()) - rows,
                         THIMBLE_MOST_LOGIT_ROWS - with_logits);
  for (SequenceRows& part : *parts) {
    if (!is_answer(part)) continue;
    Sequence& sequence = *running_[part.sequence];
    const std::vector<int32_t>& read = slots_[sequence.slot()].tokens;
    const auto behind = static_cast<size_t>(program.room_behind(read.size() + 1));
    Result<std::vector<int32_t>> draft =
        sequence.draft(with_places(read), std::min({kMostDraft, room, behind}), costs);
    if (!draft.ok()) return draft.status();
    part.draft = std::move(*draft);
    room -= part.draft.size();
  }
  return {};
}

Status Engine::compute_rows(const std::vector<SequenceRows>& parts) {
  if (sight_ == nullptr) return {};
  for (const SequenceRows& part : parts) {
    Sequence& sequence = *running_[part.sequence];
    const auto begin = sequence.next().begin();
    const std::vector<int64_t> read(begin, begin + static_cast<std::ptrdiff_t>(part.rows));
    const Status status = sight_->compute(read, /*interrupted=*/nullptr, sequence.image_rows());
    if (!status.ok()) return status;
  }
  return {};
}

Result<const float*> Engine::run(const std::vector<SequenceRows>& parts) {
  const Status computed = compute_rows(parts);
  if (!computed.ok()) return computed;
  std::vector<int64_t> tokens;
  std::vector<thimble_segment> segments;
  std::deque<RowPositions> positions;
  for (const SequenceRows& part : parts) {
    const Sequence& sequence = *running_[part.sequence];
    Slots::Slot& slot = slots_[sequence.slot()];
    std::vector<int32_t> read(sequence.next().begin(),
                              sequence.next().begin() + static_cast<std::ptrdiff_t>(part.rows));
    read.insert(read.end(), part.draft.begin(), part.draft.end());
    const size_t logit_rows = part.gets_logits ? 1 + part.draft.size() : 0;
    segments.push_back({slot.cache, static_cast<int64_t>(slot.tokens.size()),
                        static_cast<int64_t>(read.size()), static_cast<int64_t>(logit_rows),
                        nullptr, 0, nullptr});
    if (sight_ != nullptr) {
      Result<RowPositions> own = positions_behind(*sight_, slot.tokens, {read.begin(), read.end()});
      if (!own.ok()) return own.status();
      positions.push_back(std::move(*own));
      positions.back().give(&segments.back());
    }
    tokens.insert(tokens.end(), read.begin(), read.end());
    slot.tokens.insert(slot.tokens.end(), read.begin(), read.end());
  }
  const auto start = std::chrono::steady_clock::now();
  const bool sees = std::any_of(tokens.begin(), tokens.end(), is_row);
  const Result<const float*> logits =
      sees ? sight_->read(tokens, segments.front().start_pos, segments)
           : model_->program().run(tokens, segments);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (logits.ok()) observe(parts, taken.count());
  return logits;
}

double Engine::answers_s(size_t answers) const {
  double seconds = 0;
  for (size_t n = 1; n <= answers; ++n) seconds = std::max(seconds, costs_[n].call_s());
  return seconds;
}

void Engine::observe(const std::vector<SequenceRows>& parts, double seconds) {
  size_t answers = 0, drafted = 0, prompt_rows = 0;
  for (const SequenceRows& part : parts) {
    if (is_answer(part)) {
      ++answers;
      drafted += part.draft.size();
    } else {
      prompt_rows += part.rows;
    }
  }
  if (prompt_rows == 0) {
    costs_[answers].observe(drafted, seconds);
  } else {  // a row of a draft costs about as much
    prompt_share_.observe(prompt_rows + drafted, answers_s(answers), seconds);
  }
}

Status Engine::advance(const SequenceRows& part, const float* logits) {
  Sequence& sequence = *running_[part.sequence];
  const Result<size_t> unused = sequence.advance(part.rows, part.draft, logits);
  if (!unused.ok() || *unused == 0) return unused.status();
  const Result<std::vector<int32_t>> lost = slots_.take_back(sequence.slot(), *unused);
  if (!lost.ok()) return lost.status();
  sequence.read_again(*lost);
  return {};
}

void Engine::call_model() {
  const Status fitted = fit_caches();
  std::vector<SequenceRows> parts = next_rows();
  const Status drafted = fitted.ok() ? add_drafts(&parts) : fitted;
  const Result<const float*> logits = drafted.ok() ? run(parts) : Result<const float*>(drafted);
  std::vector<std::pair<size_t, Status>> ended;
  const float* row = logits.ok() ? *logits : nullptr;
  for (const SequenceRows& part : parts) {
    const Status status =
        logits.ok() ? advance(part, part.gets_logits ? row : nullptr) : logits.status();
    if (part.gets_logits && logits.ok()) {
      row += (1 + part.draft.size()) * static_cast<size_t>(model_->program().vocab_size());
    }
    const Sequence& sequence = *running_[part.sequence];
    if (!status.ok()) slots_[sequence.slot()].tokens.clear();
    if (!status.ok() || sequence.ended()) ended.emplace_back(part.sequence, status);
  }
  std::sort(ended.begin(), ended.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [index, status] : ended) end(index, status);
}

size_t Engine::step() {
  model_->free_given_up();
  drop_cancelled();
  admit();
  if (!running_.empty()) call_model();
  const std::lock_guard<std::mutex> lock(mutex_);
  return running_.size() + waiting_.size();
}

}  // namespace thimble
