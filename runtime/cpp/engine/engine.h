#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/status.h"
#include "draft/drafter.h"
#include "engine/idle_constraints.h"
#include "engine/prompt_share.h"
#include "engine/request.h"
#include "engine/schedule.h"
#include "engine/sequence.h"
#include "engine/slots.h"
#include "model/model.h"
#include "runner/runner.h"
#include "see/sight.h"

namespace thimble {

inline constexpr int32_t kMostSequences = 32;

struct EngineOptions {
  int32_t sequences = 8;     ///< that run at once, 1 to kMostSequences; each has a cache
  int32_t queue = 64;        ///< requests that may wait for one of them
  int32_t prompt_rows = 64;  ///< the most tokens of prompts in a call; fewer beside answers
};

/// Runs several requests at once, in shared calls of the model: the matrix products are shared,
/// attention is each sequence's own. A request gets the tokens that it would get alone, bit for
/// bit.
class Engine {
 public:
  /// \param runner of the model, on the CPU delegate. Neither it nor its forks may work while the
  ///   engine does. If it drafts, each request does, with a drafter of its own; a draft model is
  ///   refused.
  static Result<std::unique_ptr<Engine>> create(const Runner& runner, const EngineOptions& options);
  /// Ends every request as interrupted; where memory runs out, it is not told so.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Accepts a request; returns its number. Fails if it is not possible, or the queue is full. May
  /// be called from any thread, also from callbacks.
  Result<int64_t> submit(Request request);
  /// Ends a request with the next step, as interrupted; a number that is not at work is ignored.
  /// May be called from any thread.
  void cancel(int64_t id);

  /// Calls the model once, for all that are at work with the same adapter; adapters take turns.
  /// Returns how many requests are left, waiting or at work. One thread at a time.
  size_t step();

 private:
  Engine(std::shared_ptr<Model> model, std::shared_ptr<Sight> sight, const EngineOptions& options,
         Slots slots, std::shared_ptr<Drafter> drafter, Stats stats)
      : model_(std::move(model)),
        sight_(std::move(sight)),
        options_(options),
        slots_(std::move(slots)),
        drafter_(std::move(drafter)),
        stats_(std::move(stats)),
        prompt_share_(static_cast<size_t>(options.prompt_rows)),
        constraints_([this](const ConstraintText& text, const StillWanted& wanted) {
          return model_->compile(text, wanted);
        }) {
    for (int32_t n = 0; n <= options.sequences; ++n) costs_.emplace_back(static_cast<size_t>(n));
  }
  /// A text with the token of a picture's place for each row.
  std::vector<int32_t> with_places(const std::vector<int32_t>& tokens) const {
    return sight_ != nullptr ? sight_->with_places(tokens) : tokens;
  }
  void drop_cancelled();
  /// Gives free slots to those that wait.
  void admit();
  /// What a sequence guesses with: of its own; null: it does not.
  std::unique_ptr<Drafter> drafter_of(const Sequence& sequence) const;
  /// The indices of those whose turn it is.
  std::vector<size_t> next_to_run() const;
  /// Gives caches the rotary tables of the texts that they will have.
  Status fit_caches();
  /// What each sequence has in the next call.
  std::vector<SequenceRows> next_rows();
  /// Makes each part end before or behind a picture whose rows attend to each other; if the call
  /// then has too many rows, or a part ends its text so, that part is left alone.
  void keep_pictures_whole(std::vector<SequenceRows>* parts) const;
  /// Lets sequences guess behind their only token, as far as the call has room.
  Status add_drafts(std::vector<SequenceRows>* parts);
  Result<const float*> run(const std::vector<SequenceRows>& parts);
  /// Seconds of a call of so many answers alone, as far as it is known; 0: it is not.
  double answers_s(size_t answers) const;
  /// Learns from a call what calls take.
  void observe(const std::vector<SequenceRows>& parts, double seconds);
  /// Computes the rows of pictures that parts read.
  Status compute_rows(const std::vector<SequenceRows>& parts);
  void call_model();
  /// Gives a sequence its part of the logits; they may be null.
  Status advance(const SequenceRows& part, const float* logits);
  void end(size_t index, const Status& status);

  std::shared_ptr<Model> model_;
  const std::shared_ptr<Sight> sight_;  ///< null: the model does not see
  const EngineOptions options_;
  Slots slots_;
  const std::shared_ptr<Drafter> drafter_;  ///< the runner's, of which each sequence has another
  std::vector<CallCosts> costs_;            ///< of calls with so many answers
  const Stats stats_;                       ///< what requests begin with
  PromptShare prompt_share_;
  std::vector<std::unique_ptr<Sequence>> running_;  ///< changed under mutex_, by step() alone
  size_t turn_ = 0;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Sequence>> waiting_;  ///< guarded by mutex_
  int64_t next_id_ = 1;                            ///< guarded by mutex_
  IdleConstraints constraints_;
};

}  // namespace thimble
