#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/schedule.h"

namespace thimble {

Result<std::unique_ptr<Engine>> Engine::create(const Runner& runner, const EngineOptions& options) {
  const std::shared_ptr<Model>& model = runner.shared_model();
  const LoadedMethod& program = model->program();
  if (!program.runs_segments()) {
    return Status::error(model->file().path() +
                         " cannot run several sequences at once, because it does not run on the "
                         "CPU delegate as a whole: export it with --delegate cpu");
  }
  EngineOptions fitting = options;
  const auto room = static_cast<int32_t>(std::min<int64_t>(program.max_seq_len(), INT32_MAX));
  fitting.sequences = std::min(options.sequences, room);
  fitting.prompt_rows = std::max(std::min(options.prompt_rows, room - fitting.sequences + 1), 1);
  Result<Slots> slots = Slots::create(model, runner.cache(), runner.adapter(),
                                      static_cast<size_t>(fitting.sequences));
  if (!slots.ok()) return slots.status();
  return std::unique_ptr<Engine>(
      new Engine(model, fitting, std::move(*slots), runner.fresh_stats()));
}

Engine::~Engine() {
  for (const auto& sequence : running_) sequence->end({});
  for (const auto& sequence : waiting_) sequence->end({});
}

Result<int64_t> Engine::submit(Request request) {
  if (request.tokens.empty()) return Status::error("the request has no tokens: give at least one");
  Status fits = model_->check_context(request.tokens);
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
  Result<std::unique_ptr<Constraint>> constraint = constraints_.take(request.constraint);
  if (!constraint.ok()) return constraint.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (waiting_.size() >= static_cast<size_t>(options_.queue)) {
    return Status::error("the queue is full: " + std::to_string(waiting_.size()) +
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
    sequence->start(*model_, *slot, slots_[*slot].tokens.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.push_back(std::move(sequence));
  }
}

std::vector<size_t> Engine::next_to_run() const {
  const std::string& adapter = running_[turn_ % running_.size()]->adapter();
  std::vector<size_t> next;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->adapter() == adapter) next.push_back(i);
  }
  return next;
}

void Engine::call_model() {
  const std::vector<size_t> group = next_to_run();
  std::vector<size_t> ready;
  for (const size_t index : group) ready.push_back(running_[index]->next().size());
  std::vector<Share> shares =
      divide(ready, turn_ % ready.size(), static_cast<size_t>(options_.prompt_rows));
  for (Share& share : shares) share.sequence = group[share.sequence];
  ++turn_;
  std::vector<int64_t> tokens;
  std::vector<thimble_segment> segments;
  for (const Share& share : shares) {
    const Sequence& sequence = *running_[share.sequence];
    Slots::Slot& slot = slots_[sequence.slot()];
    const auto first = sequence.next().begin();
    const auto last = first + static_cast<std::ptrdiff_t>(share.rows);
    segments.push_back({slot.cache, static_cast<int64_t>(slot.tokens.size()),
                        static_cast<int64_t>(share.rows), share.gets_logits ? 1 : 0, nullptr});
    tokens.insert(tokens.end(), first, last);
    slot.tokens.insert(slot.tokens.end(), first, last);
  }
  const Result<const float*> logits = model_->program().run(tokens, segments);
  std::vector<std::pair<size_t, Status>> ended;
  const float* row = logits.ok() ? *logits : nullptr;
  for (const Share& share : shares) {
    Sequence& sequence = *running_[share.sequence];
    if (!logits.ok()) {
      slots_[sequence.slot()].tokens.clear();
      ended.emplace_back(share.sequence, logits.status());
      continue;
    }
    const Status status = sequence.advance(share.rows, share.gets_logits ? row : nullptr);
    if (share.gets_logits) row += model_->program().vocab_size();
    if (!status.ok() || sequence.ended()) ended.emplace_back(share.sequence, status);
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
