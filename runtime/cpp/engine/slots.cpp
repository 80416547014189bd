#include "engine/slots.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

/// Tokens that a copy must save at least: it also takes memory.
constexpr size_t kLeastCopied = 32;

}  // namespace

Result<Slots> Slots::create(std::shared_ptr<Model> model, int32_t cache, const std::string& adapter,
                            size_t count) {
  Slots slots(std::move(model), cache);
  SessionHandle& session = slots.session();
  for (size_t i = 0; i < count; ++i) {
    Status status = session.use(i == 0 ? cache : slots.slots_[0].cache);
    if (!status.ok()) return status;
    const Result<int32_t> copy = session.fork();
    if (!copy.ok()) return copy.status();
    slots.slots_.push_back({*copy, adapter, /*is_long=*/false, {}});
    if (i > 0) continue;
    status = session.use(*copy);
    if (status.ok()) status = session.truncate(0);
    if (status.ok()) status = session.use_table(/*is_long=*/false);
    if (!status.ok()) return status;
  }
  const Status status = session.use(cache);
  if (!status.ok()) return status;
  return slots;
}

Slots::~Slots() {
  for (const Slot& slot : slots_) model_->give_up(slot.cache);
}

bool Slots::any_free() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
}

size_t Slots::shared(const Slot& slot, const std::vector<int32_t>& tokens,
                     const std::string& adapter) const {
  const bool is_long = model_->program().is_long(tokens.size());
  if (slot.adapter != adapter || slot.is_long != is_long) return 0;
  const auto end =
      std::mismatch(slot.tokens.begin(), slot.tokens.end(), tokens.begin(), tokens.end());
  return std::min(static_cast<size_t>(end.first - slot.tokens.begin()), tokens.size() - 1);
}

size_t Slots::best(const std::vector<int32_t>& tokens, const std::string& adapter,
                   bool taken) const {
  size_t best = slots_.size(), most = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].taken != taken) continue;
    const size_t count = shared(slots_[i], tokens, adapter);
    if (best == slots_.size() || count > most ||
        (count == most && slots_[i].last_used < slots_[best].last_used)) {
      best = i;
      most = count;
    }
  }
  return best;
}

Status Slots::copy(size_t from, size_t to) {
  Status status = session().use(slots_[from].cache);
  if (!status.ok()) return status;
  const Result<int32_t> copy = session().fork();
  if (!copy.ok()) return copy.status();
  session().free(slots_[to].cache);
  slots_[to].cache = *copy;
  slots_[to].adapter = slots_[from].adapter;
  slots_[to].is_long = slots_[from].is_long;
  slots_[to].tokens = slots_[from].tokens;
  return {};
}

Status Slots::use_adapter(Slot* slot, const std::string& adapter) {
  if (slot->adapter == adapter) return {};
  Status status = session().use(slot->cache);
  if (status.ok()) status = session().use_adapter(adapter);
  if (!status.ok()) return status;
  slot->adapter = adapter;
  slot->tokens.clear();
  return {};
}

Status Slots::use_table(Slot* slot, bool is_long) {
  if (slot->is_long == is_long) return {};
  Status status = session().use(slot->cache);
  if (status.ok()) status = session().use_table(is_long);
  if (!status.ok()) return status;
  slot->is_long = is_long;
  slot->tokens.clear();
  return {};
}

Result<std::vector<int32_t>> Slots::fit(size_t slot, size_t length) {
  Slot& used = slots_[slot];
  const bool is_long = model_->program().is_long(length);
  std::vector<int32_t> held;
  if (used.is_long == is_long) return held;
  held = used.tokens;
  Status status = use_table(&used, is_long);
  const Status home = session().use(home_);
  if (status.ok()) status = home;
  if (!status.ok()) return status;
  return held;
}

Status Slots::truncate(Slot* slot, size_t length) {
  const Status status = session().use(slot->cache);
  if (!status.ok()) return status;
  const Result<int64_t> kept = session().rewind(static_cast<int64_t>(length));
  if (!kept.ok()) return kept.status();
  slot->tokens.resize(static_cast<size_t>(*kept));
  return {};
}

Result<std::vector<int32_t>> Slots::take_back(size_t slot, size_t count) {
  Slot& used = slots_[slot];
  const size_t length = used.tokens.size() - count;
  const std::vector<int32_t> before = used.tokens;
  Status status = truncate(&used, length);
  const Status home = session().use(home_);
  if (status.ok()) status = home;
  if (!status.ok()) return status;
  return std::vector<int32_t>(before.begin() + static_cast<std::ptrdiff_t>(used.tokens.size()),
                              before.begin() + static_cast<std::ptrdiff_t>(length));
}

Result<size_t> Slots::take(const std::vector<int32_t>& tokens, const std::string& adapter) {
  const size_t free = best(tokens, adapter, /*taken=*/false);
  const size_t other = best(tokens, adapter, /*taken=*/true);
  Status status;
  if (other != slots_.size() && shared(slots_[other], tokens, adapter) >=
                                    shared(slots_[free], tokens, adapter) + kLeastCopied) {
    status = copy(other, free);
  }
  Slot& slot = slots_[free];
  if (status.ok()) status = use_adapter(&slot, adapter);
  if (status.ok()) status = use_table(&slot, model_->program().is_long(tokens.size()));
  if (status.ok()) status = truncate(&slot, shared(slot, tokens, adapter));
  const Status home = session().use(home_);
  if (status.ok()) status = home;
  if (!status.ok()) return status;
  slot.taken = true;
  slot.last_used = ++uses_;
  return free;
}

}  // namespace thimble
