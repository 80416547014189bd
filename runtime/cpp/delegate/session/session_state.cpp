#include "delegate/session/session_state.h"

#include <algorithm>
#include <set>

namespace thimble::cpu {
namespace {

/// As in "3 heads of 12 numbers, 700 positions, float16".
std::string describe(const CacheGeometry& geometry) {
  return std::to_string(geometry.heads) + " heads of " + std::to_string(geometry.head_dim) +
         " numbers, " + std::to_string(geometry.capacity) + " positions, " +
         (geometry.is_ring() ? "a window of " + std::to_string(geometry.window) + ", " : "") +
         cache_type_name(geometry.type);
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
    default:
      return of_program;
  }
}

Status Session::check_shared(const std::vector<NamedGeometry>& wanted) const {
  for (const NamedGeometry& one : wanted) {
    const auto found = current_->second.named.find(one.name);
    if (found == current_->second.named.end() || found->second.geometry() == one.geometry) continue;
    return Status::error("the program's cache " + one.name + " has " + describe(one.geometry) +
                         ", and the one of that name in its session " +
                         describe(found->second.geometry()) + ": load it in another session");
  }
  return {};
}

void Session::tie(uint32_t number, const LoadedProgram& program, Cache* cache) {
  ProgramCaches& caches = cache->programs[number];
  for (const std::string& name : program.caches) caches.push_back(&cache->named.at(name));
}

Result<uint32_t> Session::add_program(uint32_t checksum, const std::vector<NamedGeometry>& wanted,
                                      const std::vector<std::string>& adapters) {
  Status status = check_shared(wanted);
  if (!status.ok()) return status;
  std::vector<std::map<std::string, KvCache>> fresh(caches_.size());
  for (std::map<std::string, KvCache>& caches : fresh) {
    for (const NamedGeometry& one : wanted) {
      if (current_->second.named.count(one.name) > 0) continue;
      Result<KvCache> cache = KvCache::allocate(one.geometry);
      if (!cache.ok()) return cache.status();
      caches.emplace(one.name, std::move(*cache));
    }
  }
  const uint32_t number = next_program_++;
  LoadedProgram& program = programs_[number];
  program.checksum = checksum;
  for (const NamedGeometry& one : wanted) program.caches.push_back(one.name);
  for (const std::string& name : adapters) {
    if (find_adapter(name) == kNoAdapter) adapters_.push_back(name);
    program.adapters.push_back(find_adapter(name));
  }
  size_t i = 0;
  for (auto& entry : caches_) {
    entry.second.named.merge(fresh[i++]);
    tie(number, program, &entry.second);
  }
  return number;
}

void Session::remove_program(uint32_t number) {
  programs_.erase(number);
  std::set<std::string> used;
  for (const auto& entry : programs_) {
    used.insert(entry.second.caches.begin(), entry.second.caches.end());
  }
  for (auto& entry : caches_) {
    Cache& cache = entry.second;
    cache.programs.erase(number);
    for (auto one = cache.named.begin(); one != cache.named.end();) {
      one = used.count(one->first) > 0 ? std::next(one) : cache.named.erase(one);
    }
  }
}

const ProgramCaches& Session::caches(uint32_t program, int32_t cache) const {
  return caches_.at(cache).programs.at(program);
}

int32_t Session::find_adapter(const std::string& name) const {
  const auto found = std::find(adapters_.begin(), adapters_.end(), name);
  return found == adapters_.end() ? kNoAdapter : static_cast<int32_t>(found - adapters_.begin());
}

const std::string& Session::name_of(int32_t adapter) const {
  static const std::string none;
  return adapter == kNoAdapter ? none : adapters_[static_cast<size_t>(adapter)];
}

int32_t Session::adapter_of(uint32_t program, int32_t cache) const {
  const int32_t adapter = caches_.at(cache).adapter;
  const std::vector<int32_t>& known = programs_.at(program).adapters;
  const auto found = std::find(known.begin(), known.end(), adapter);
  return found == known.end() ? kNoAdapter : static_cast<int32_t>(found - known.begin());
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

Status Session::ask_for(const thimble_segment* segments, size_t count) {
  asked_.reset();
  if (count == 0) return {};
  if (count > 1 || segments == nullptr) {
    return Status::error(
        std::to_string(count) +
        " segments were requested, but this runtime runs one segment per call: make "
        "one call for each");
  }
  thimble_segment segment = *segments;
  if (!has_cache(segment.cache)) {
    return Status::error("there is no cache " + std::to_string(segment.cache) +
                         ": give 0, or a number that a fork returned and that was not freed");
  }
  if (segment.rows < 1 || segment.start_pos < 0 || segment.logit_rows < 0 ||
      segment.logit_rows > segment.rows) {
    return Status::error("a segment of " + std::to_string(segment.rows) + " rows from position " +
                         std::to_string(segment.start_pos) + " on with logits of " +
                         std::to_string(segment.logit_rows) +
                         " is not possible: give 1 row or more, a position that is not negative, "
                         "and logits of no more rows than there are");
  }
  for (int64_t i = 0; segment.positions != nullptr && i < segment.rows; ++i) {
    if (segment.positions[i] == segment.start_pos + i) continue;
    return Status::error(
        "row " + std::to_string(i) + " of the segment requests position " +
        std::to_string(segment.positions[i]) + " but is at " +
        std::to_string(segment.start_pos + i) +
        " of its cache: this runtime runs one segment per call, whose positions must be "
        "those of its cache");
  }
  segment.positions = nullptr;
  asked_ = segment;
  return {};
}

std::optional<thimble_segment> Session::take_asked() {
  std::optional<thimble_segment> asked = asked_;
  asked_.reset();
  return asked;
}

size_t Session::least_length() const {
  size_t least = 0;
  for (const auto& entry : current_->second.named) {
    least = std::max(least, entry.second.least_length());
  }
  return least;
}

void Session::set_written(uint32_t program, int32_t cache, size_t start, size_t rows) {
  for (KvCache* one : caches(program, cache)) one->set_written(start, rows);
  set_length(cache, start + rows);
}

Status Session::check_start(uint32_t program, int32_t cache, size_t start) const {
  size_t least = 0;
  for (const KvCache* one : caches(program, cache)) least = std::max(least, one->least_length());
  if (start == 0 || start >= least) return {};
  return Status::error("start_pos is " + std::to_string(start) +
                       ", but the sliding windows of the KV cache hold only what positions from " +
                       std::to_string(least) + " on see: start at one of " + std::to_string(least) +
                       " to " + std::to_string(length(cache)) + ", or at 0");
}

size_t Session::kept_by_truncate(size_t length) const {
  return length >= least_length() ? std::min(length, this->length()) : 0;
}

Status Session::truncate(int64_t length) {
  if (length < 0 || static_cast<uint64_t>(length) > this->length()) {
    return Status::error("cannot truncate the cache to " + std::to_string(length) +
                         " positions: give 0 to the " + std::to_string(this->length()) +
                         " that it holds");
  }
  const auto kept = static_cast<size_t>(length);
  if (kept_by_truncate(kept) != kept) {
    return Status::error("cannot truncate the cache to " + std::to_string(length) +
                         " positions: its sliding windows reach back to " +
                         std::to_string(least_length()) + ": give one of " +
                         std::to_string(least_length()) + " to " + std::to_string(this->length()) +
                         ", or 0");
  }
  current_->second.length = kept;
  if (kept == 0) clear_current();
  return {};
}

void Session::clear_current() {
  current_->second.length = 0;
  for (auto& entry : current_->second.named) entry.second.set_written(0, 0);
}

std::vector<KvCache*> Session::each_current() const {
  std::vector<KvCache*> each;
  std::set<const KvCache*> known;
  for (const auto& entry : current_->second.programs) {
    for (KvCache* cache : entry.second) {
      if (known.insert(cache).second) each.push_back(cache);
    }
  }
  return each;
}

Result<int32_t> Session::fork() {
  Cache copy;
  copy.length = length();
  copy.adapter = current_->second.adapter;
  for (const auto& [name, cache] : current_->second.named) {
    Result<KvCache> one = cache.copy(length());
    if (!one.ok()) return one.status();
    copy.named.emplace(name, std::move(*one));
  }
  const int32_t number = next_cache_++;
  Cache& kept = caches_[number] = std::move(copy);
  for (const auto& [program, loaded] : programs_) tie(program, loaded, &kept);
  return number;
}

Status Session::use(int32_t cache) {
  const auto found = caches_.find(cache);
  if (found == caches_.end()) {
    return Status::error("there is no cache " + std::to_string(cache) +
                         ": give 0, or a number that a fork returned and that was not freed");
  }
  current_ = found;
  return {};
}

Status Session::free(int32_t cache) {
  const auto found = caches_.find(cache);
  if (found == caches_.end() || found == current_ || cache == 0) {
    return Status::error(
        "cannot free cache " + std::to_string(cache) +
        ": give a number that a fork returned, and make another cache current first");
  }
  caches_.erase(found);
  return {};
}

}  // namespace thimble::cpu
