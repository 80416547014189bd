#include "delegate/session/session_state.h"

#include <algorithm>
#include <set>
#include <utility>

namespace thimble::cpu {
namespace {

/// As in "3 heads of 12 numbers, 700 positions, float16".
std::string describe(const CacheGeometry& geometry) {
  return std::to_string(geometry.heads) + " heads of " + std::to_string(geometry.head_dim) +
         " numbers, " + std::to_string(geometry.capacity) + " positions, " +
         (geometry.is_ring() ? "a window of " + std::to_string(geometry.window) + ", " : "") +
         cache_type_name(geometry.type);
}

/// As in "2 rows of 2048 numbers".
std::string describe(const StateGeometry& geometry) {
  return std::to_string(geometry.rows) + " rows of " + std::to_string(geometry.width) +
         " numbers, kept every " + std::to_string(geometry.interval) + " positions";
}

/// Checks that what a program needs is like what has the same name.
template <typename Named, typename Kept>
Status check_alike(const std::vector<Named>& geometries, const std::map<std::string, Kept>& named,
                   const std::string& what) {
  for (const Named& one : geometries) {
    const auto entry = named.find(one.name);
    if (entry == named.end() || entry->second.geometry() == one.geometry) continue;
    return Status::error("the program's " + what + " " + one.name + " has " +
                         describe(one.geometry) + ", and the one of that name in its session " +
                         describe(entry->second.geometry()) + ": load it in another session");
  }
  return {};
}

/// Allocates what is wanted and not there under its name.
template <typename Named, typename Kept>
Status allocate_absent(const std::vector<Named>& geometries,
                       const std::map<std::string, Kept>& named,
                       std::map<std::string, Kept>* fresh) {
  for (const Named& one : geometries) {
    if (named.count(one.name) > 0) continue;
    Result<Kept> kept = Kept::allocate(one.geometry);
    if (!kept.ok()) return kept.status();
    fresh->emplace(one.name, std::move(*kept));
  }
  return {};
}

template <typename Kept>
void erase_unused(const std::set<std::string>& used, std::map<std::string, Kept>* named) {
  for (auto one = named->begin(); one != named->end();) {
    one = used.count(one->first) > 0 ? std::next(one) : named->erase(one);
  }
}

/// Copies all to a map that has none of them.
template <typename Kept, typename Copy>
Status copy_each(const std::map<std::string, Kept>& named, std::map<std::string, Kept>* copies,
                 Copy copy) {
  for (const auto& [name, kept] : named) {
    Result<Kept> one = copy(kept);
    if (!one.ok()) return one.status();
    copies->emplace(name, std::move(*one));
  }
  return {};
}

/// Those of all programs, each once, in the order of the programs.
template <typename Kept>
std::vector<Kept*> each_once(const std::map<uint32_t, ProgramCaches>& programs,
                             std::vector<Kept*> ProgramCaches::* kind) {
  std::vector<Kept*> distinct;
  std::set<const Kept*> known;
  for (const auto& entry : programs) {
    for (Kept* one : entry.second.*kind) {
      if (known.insert(one).second) distinct.push_back(one);
    }
  }
  return distinct;
}

/// The smallest length above 0 after which the next position finds its windows; 0: any.
size_t least_length_of(const std::vector<KvCache*>& caches) {
  size_t least = 0;
  for (const KvCache* cache : caches) least = std::max(least, cache->least_length());
  return least;
}

/// The last position up to `length` at which a call can start.
size_t reachable(const std::vector<KvCache*>& caches, const std::vector<StateCache*>& states,
                 size_t length) {
  for (size_t before = 0; before != length;) {
    before = length;
    for (const StateCache* state : states) length = state->reachable(length);
  }
  return length >= least_length_of(caches) ? length : 0;
}

/// Why a cache of `end` positions cannot be that of `length`, and what to do: to `choose` another.
std::string describe_reach(const std::vector<KvCache*>& caches,
                           const std::vector<StateCache*>& states, size_t length, size_t end,
                           const std::string& choose) {
  const size_t least = least_length_of(caches);
  if (length < least) {
    return "its sliding windows reach back to " + std::to_string(least) + ": " + choose +
           " one of " + std::to_string(least) + " to " + std::to_string(end) + ", or 0";
  }
  const std::string last = std::to_string(reachable(caches, states, length));
  return "the last states up to there are kept of position " + last + ": " + choose + " " + last;
}

}  // namespace

Session::Session(const thimble_session_options& options)
    : options_(options),
      team_(static_cast<size_t>(options.threads)),
      current_(caches_.emplace(0, Cache{}).first) {}

kernels::CacheType Session::cache_type(kernels::CacheType of_program) const {
  switch (options_.cache_type) {
    case THIMBLE_CACHE_FLOAT16:
      return kernels::CacheType::kFloat16;
    case THIMBLE_CACHE_FLOAT32:
      return kernels::CacheType::kFloat32;
    case THIMBLE_CACHE_INT8:
      return kernels::CacheType::kInt8;
    case THIMBLE_CACHE_INT4:
      return kernels::CacheType::kInt4;
    case THIMBLE_CACHE_INT8_INT4:
      return kernels::CacheType::kInt8Int4;
    default:
      return of_program;
  }
}

Status Session::check_shared(const std::vector<NamedGeometry>& geometries,
                             const std::vector<NamedState>& states) const {
  const Status status = check_alike(geometries, current_->second.named, "cache");
  return status.ok() ? check_alike(states, current_->second.states, "state") : status;
}

void Session::tie(uint32_t number, const LoadedProgram& program, Cache* cache) {
  ProgramCaches& caches = cache->programs[number];
  for (const std::string& name : program.caches) caches.kv.push_back(&cache->named.at(name));
  for (const std::string& name : program.states) caches.states.push_back(&cache->states.at(name));
}

Result<uint32_t> Session::add_program(uint32_t checksum,
                                      const std::vector<NamedGeometry>& geometries,
                                      const std::vector<std::string>& adapters,
                                      const std::vector<NamedState>& states, size_t original) {
  Status status = check_shared(geometries, states);
  if (status.ok() && original > 0 && this->original() > 0 && original != this->original()) {
    status = Status::error("the program's rotary tables change at " + std::to_string(original) +
                           " tokens, and those of another in its session at " +
                           std::to_string(this->original()) + ": load it in another session");
  }
  std::vector<Cache> fresh(caches_.size());
  for (Cache& cache : fresh) {
    if (status.ok()) status = allocate_absent(geometries, current_->second.named, &cache.named);
    if (status.ok()) status = allocate_absent(states, current_->second.states, &cache.states);
  }
  if (!status.ok()) return status;
  const uint32_t number = next_program_++;
  LoadedProgram& program = programs_[number];
  program.checksum = checksum;
  program.original = original;
  for (const NamedGeometry& one : geometries) program.caches.push_back(one.name);
  for (const NamedState& one : states) program.states.push_back(one.name);
  for (const std::string& name : adapters) {
    if (find_adapter(name) == kNoAdapter) adapters_.push_back(name);
    program.adapters.push_back(find_adapter(name));
  }
  size_t i = 0;
  for (auto& entry : caches_) {
    entry.second.named.merge(fresh[i].named);
    entry.second.states.merge(fresh[i++].states);
    tie(number, program, &entry.second);
  }
  return number;
}

void Session::remove_program(uint32_t number) {
  programs_.erase(number);
  std::set<std::string> used;
  for (const auto& entry : programs_) {
    used.insert(entry.second.caches.begin(), entry.second.caches.end());
    used.insert(entry.second.states.begin(), entry.second.states.end());
  }
  for (auto& entry : caches_) {
    Cache& cache = entry.second;
    cache.programs.erase(number);
    erase_unused(used, &cache.named);
    erase_unused(used, &cache.states);
  }
}

const ProgramCaches& Session::caches(uint32_t program, int32_t cache) const {
  return caches_.at(cache).programs.at(program);
}

int32_t Session::find_adapter(const std::string& name) const {
  const auto entry = std::find(adapters_.begin(), adapters_.end(), name);
  return entry == adapters_.end() ? kNoAdapter : static_cast<int32_t>(entry - adapters_.begin());
}

const std::string& Session::name_of(int32_t adapter) const {
  static const std::string none;
  return adapter == kNoAdapter ? none : adapters_[static_cast<size_t>(adapter)];
}

int32_t Session::adapter_of(uint32_t program, int32_t cache) const {
  const int32_t adapter = caches_.at(cache).adapter;
  const std::vector<int32_t>& known = programs_.at(program).adapters;
  const auto entry = std::find(known.begin(), known.end(), adapter);
  return entry == known.end() ? kNoAdapter : static_cast<int32_t>(entry - known.begin());
}

Status Session::use_adapter(const std::string& name) {
  const int32_t adapter = find_adapter(name);
  if (!name.empty() && adapter == kNoAdapter) {
    if (adapters_.empty()) {
      return Status::error("there is no adapter " + name +
                           ", because the model has none: export it with --adapter " + name +
                           "=DIR, or run it without an adapter");
    }
    std::string names;
    for (const std::string& known : adapters_) names += (names.empty() ? "" : ", ") + known;
    return Status::error("there is no adapter " + name + ": the model has " + names);
  }
  if (adapter != current_->second.adapter) clear_current();
  current_->second.adapter = adapter;
  return {};
}

size_t Session::original() const {
  size_t original = 0;
  for (const auto& entry : programs_) original = std::max(original, entry.second.original);
  return original;
}

Status Session::use_table(int32_t table) {
  if (table < THIMBLE_TABLE_BY_CALL || table > THIMBLE_TABLE_LONG) {
    return Status::error("there is no rotary table " + std::to_string(table) +
                         ": give 0 (by the call), 1 (short texts) or 2 (long ones)");
  }
  Cache& cache = current_->second;
  cache.table = table;
  const bool is_long = table == THIMBLE_TABLE_LONG;
  if (table == THIMBLE_TABLE_BY_CALL || is_long == cache.is_long) return {};
  clear_current();
  cache.is_long = is_long;
  return {};
}

Status Session::check_table(const Segment& segment) const {
  const Cache& cache = caches_.at(segment.cache);
  const size_t length = static_cast<size_t>(segment.start_pos) + segment.rows;
  const bool is_long = length > original(), by_call = cache.table == THIMBLE_TABLE_BY_CALL;
  const bool fits =
      by_call ? segment.start_pos == 0 || is_long == cache.is_long : cache.is_long || !is_long;
  if (fits) return {};
  return Status::error("the KV cache was computed with the rotary table for texts of " +
                       std::string(cache.is_long ? "more than " : "up to ") +
                       std::to_string(original()) + " tokens, and this text has " +
                       std::to_string(length) + ": compute it again, from position 0");
}

bool Session::choose_table(const Segment& segment) {
  Cache& cache = caches_.at(segment.cache);
  if (cache.table == THIMBLE_TABLE_BY_CALL && segment.start_pos == 0) {
    cache.is_long = segment.rows > original();
  }
  return cache.is_long;
}

Status Session::ask_for(const thimble_segment* segments, size_t count, float* logits,
                        size_t logits_size) {
  asked_ = {};
  Result<AskedSegments> asked = read_segments(segments, count, logits, logits_size);
  if (!asked.ok()) return asked.status();
  for (const Segment& segment : asked->segments) {
    if (segment.cache == kNoCache || has_cache(segment.cache)) continue;
    return Status::error("there is no cache " + std::to_string(segment.cache) +
                         ": give 0, or a number that a fork returned and that was not freed");
  }
  asked_ = std::move(*asked);
  return {};
}

AskedSegments Session::take_asked() { return std::exchange(asked_, {}); }

void Session::set_written(uint32_t program, int32_t cache, size_t start, size_t rows) {
  for (KvCache* one : caches(program, cache).kv) one->set_written(start, rows);
  for (StateCache* one : caches(program, cache).states) one->set_written(start, rows);
  set_length(cache, start + rows);
}

Status Session::check_start(uint32_t program, int32_t cache, size_t start) const {
  const ProgramCaches& kept = caches(program, cache);
  if (reachable(kept.kv, kept.states, start) == start) return {};
  return Status::error("the call starts at position " + std::to_string(start) +
                       " of the KV cache, but " +
                       describe_reach(kept.kv, kept.states, start, length(cache), "start at"));
}

void Session::return_to(uint32_t program, int32_t cache, size_t start) {
  for (StateCache* state : caches(program, cache).states) state->return_to(start);
}

size_t Session::kept_by_truncate(size_t length) const {
  return reachable(each_current(), each_state(), std::min(length, this->length()));
}

Status Session::truncate(int64_t length) {
  if (length < 0 || static_cast<uint64_t>(length) > this->length()) {
    return Status::error("cannot truncate the cache to " + std::to_string(length) +
                         " positions: give 0 to the " + std::to_string(this->length()) +
                         " that it holds");
  }
  const auto kept = static_cast<size_t>(length);
  if (kept_by_truncate(kept) != kept) {
    return Status::error(
        "cannot truncate the cache to " + std::to_string(length) + " positions, because " +
        describe_reach(each_current(), each_state(), kept, this->length(), "give"));
  }
  for (StateCache* state : each_state()) state->return_to(kept);
  current_->second.length = kept;
  if (kept == 0) clear_current();
  return {};
}

void Session::clear_current() {
  current_->second.length = 0;
  for (auto& entry : current_->second.named) entry.second.set_written(0, 0);
  for (auto& entry : current_->second.states) entry.second.return_to(0);
}

std::vector<KvCache*> Session::each_current() const {
  return each_once(current_->second.programs, &ProgramCaches::kv);
}

std::vector<StateCache*> Session::each_state() const {
  return each_once(current_->second.programs, &ProgramCaches::states);
}

Result<int32_t> Session::fork() {
  Cache copy;
  copy.length = length();
  copy.adapter = current_->second.adapter;
  copy.table = current_->second.table;
  copy.is_long = is_long();
  Status status = copy_each(current_->second.named, &copy.named,
                            [this](const KvCache& cache) { return cache.copy(length()); });
  if (status.ok()) {
    status = copy_each(current_->second.states, &copy.states,
                       [this](const StateCache& state) { return state.copy(length()); });
  }
  if (!status.ok()) return status;
  const int32_t number = next_cache_++;
  Cache& kept = caches_[number] = std::move(copy);
  for (const auto& [program, loaded] : programs_) tie(program, loaded, &kept);
  return number;
}

Status Session::use(int32_t cache) {
  const auto entry = caches_.find(cache);
  if (entry == caches_.end()) {
    return Status::error("there is no cache " + std::to_string(cache) +
                         ": give 0, or a number that a fork returned and that was not freed");
  }
  current_ = entry;
  return {};
}

Status Session::free(int32_t cache) {
  const auto entry = caches_.find(cache);
  if (entry == caches_.end() || entry == current_ || cache == 0) {
    return Status::error(
        "cannot free cache " + std::to_string(cache) +
        ": give a number that a fork returned, and make another cache current first");
  }
  caches_.erase(entry);
  return {};
}

}  // namespace thimble::cpu
