#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/model.h"

namespace thimble {

/// The caches of an engine, each with the tokens that it holds. A sequence takes one, and leaves
/// its tokens there for the next that begins in the same way.
class Slots {
 public:
  struct Slot {
    int32_t cache;
    std::string adapter;   ///< of the cache
    bool is_long = false;  ///< whether that has the second of two rotary tables
    std::vector<int32_t> tokens;
    bool taken = false;
    uint64_t last_used = 0;
  };

  /// \param cache of the model, which is copied empty, with its `adapter`.
  static Result<Slots> create(std::shared_ptr<Model> model, int32_t cache,
                              const std::string& adapter, size_t count);
  ~Slots();
  Slots(Slots&&) = default;
  Slots(const Slots&) = delete;

  Slot& operator[](size_t slot) { return slots_[slot]; }
  bool any_free() const;

  /// Takes a free slot for a text, with as much of it as any slot of its adapter holds, all but the
  /// last token at most. A prefix in a slot that is taken is copied.
  Result<size_t> take(const std::vector<int32_t>& tokens, const std::string& adapter);
  /// Makes a slot's cache have the rotary table of a text of `length` tokens. If that changes it,
  /// it is then empty; returns the tokens that it held.
  Result<std::vector<int32_t>> fit(size_t slot, size_t length);
  /// Removes the last `count` tokens of a slot, or more if its cache must; returns those that it
  /// removed too much.
  Result<std::vector<int32_t>> take_back(size_t slot, size_t count);
  void release(size_t slot) { slots_[slot].taken = false; }

 private:
  Slots(std::shared_ptr<Model> model, int32_t home) : model_(std::move(model)), home_(home) {}
  SessionHandle& session() const { return *model_->program().session(); }
  /// The number of tokens that a text can take over.
  size_t shared(const Slot& slot, const std::vector<int32_t>& tokens,
                const std::string& adapter) const;
  /// The free slot, or the taken one, that holds most of a text, the one used longest ago if
  /// several do; slots_.size() if there is none.
  size_t best(const std::vector<int32_t>& tokens, const std::string& adapter, bool taken) const;
  Status copy(size_t from, size_t to);
  /// Changes the adapter of a slot, which is then empty.
  Status use_adapter(Slot* slot, const std::string& adapter);
  /// The same of its rotary table.
  Status use_table(Slot* slot, bool is_long);
  /// Removes every token from `length` on, or more if the cache must.
  Status truncate(Slot* slot, size_t length);

  std::shared_ptr<Model> model_;
  int32_t home_;  ///< the cache that is current while no slot is
  std::vector<Slot> slots_;
  uint64_t uses_ = 0;
};

}  // namespace thimble
