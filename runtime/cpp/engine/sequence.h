#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer/answer.h"
#include "draft/drafter.h"
#include "draft/verified_draft.h"
#include "engine/request.h"

namespace thimble {

/// A request at work: which tokens the model reads next, and what its logits lead to.
class Sequence {
 public:
  Sequence(int64_t id, Request request, const Stats& stats, std::unique_ptr<Constraint> constraint);

  int64_t id() const { return id_; }
  const std::vector<int32_t>& tokens() const { return request_.tokens; }
  const std::string& adapter() const { return request_.adapter; }
  const std::vector<int32_t>& prediction() const { return request_.predicted; }
  /// Counts rows of its pictures that are computed.
  int64_t* image_rows() { return &stats_.image_rows; }
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  /// Begins, in a slot whose cache has the first `cached` tokens. `drafter`: of this sequence
  /// alone; null: none.
  /// \param text its tokens, with those of places for rows of pictures.
  void start(const Model& model, const std::vector<int32_t>& text, size_t slot, size_t cached,
             std::unique_ptr<Drafter> drafter);
  size_t slot() const { return slot_; }
  bool drafts() const { return drafter_ != nullptr; }

  /// The tokens that the model has not read yet.
  const std::vector<int32_t>& next() const { return next_; }
  /// Guesses what its answer says behind them: see Drafter::propose(). `read`: the text that the
  /// model has read.
  Result<std::vector<int32_t>> draft(const std::vector<int32_t>& read, size_t most,
                                     const CallCosts& costs);
  /// Records that the model has read `count` of them and then a draft; `logits` are those after the
  /// last and after each of the draft, if it has read all. Returns how many of the draft the answer
  /// did not follow.
  Result<size_t> advance(size_t count, std::vector<int32_t> draft, const float* logits);
  /// Makes the model read tokens again, before those that it has not read.
  void read_again(const std::vector<int32_t>& tokens);
  /// The same of all that it has read, because their rotary table changes.
  void read_anew(const std::vector<int32_t>& tokens);
  bool ended() const { return answer_->ended(); }

  const ConstraintText& constraint_text() const { return request_.constraint; }
  /// Gives away the constraint, once the request has ended.
  std::unique_ptr<Constraint> take_constraint() { return std::move(constraint_); }

  /// Calls the request's on_end.
  void end(const Status& status);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - submitted_).count();
  }

  const int64_t id_;
  Request request_;
  Stats stats_;
  std::unique_ptr<Constraint> constraint_;
  std::atomic<bool> cancelled_{false};
  const Clock::time_point submitted_ = Clock::now();
  double started_s_ = 0;
  size_t slot_ = 0;
  std::vector<int32_t> next_;
  size_t vocab_size_ = 0;
  std::unique_ptr<Drafter> drafter_;
  std::optional<Answer> answer_;
  bool answers_ = false;  ///< its first token was chosen
};

}  // namespace thimble
