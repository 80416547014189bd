#include "delegate/session/session_state.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/crc32.h"

namespace thimble::cpu {
namespace {

/// A saved cache: 8 characters, then the version, the checksum of everything after it, the length;
/// from version 3 on, which is for caches with an adapter, the size of its name and the name; the
/// number of programs; for each program, its checksum and number of caches; for each cache, its
/// geometry; then the first position that each cache keeps; then the keys and values. Caches that
/// programs share are stored once. Numbers are uint32.
constexpr char kMagic[] = "thimblKV";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kAdapterVersion = 3;
constexpr size_t kVersionAt = kMagicBytes;
constexpr size_t kChecksumAt = kVersionAt + sizeof(uint32_t);
constexpr size_t kLengthAt = kChecksumAt + sizeof(uint32_t);
constexpr size_t kFactsAt = kLengthAt + sizeof(uint32_t);  ///< the adapter and the programs

void append(std::vector<uint8_t>* bytes, size_t number) {
  const auto value = static_cast<uint32_t>(number);
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof(value));
}

uint32_t number_at(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

/// The adapter of a saved cache of `size` bytes, kFactsAt at least; "" if it has none.
std::string saved_adapter(const uint8_t* bytes, size_t size) {
  if (number_at(bytes + kVersionAt) != kAdapterVersion || size - kFactsAt < sizeof(uint32_t)) {
    return "";
  }
  const size_t name_at = kFactsAt + sizeof(uint32_t);
  const size_t length = std::min<size_t>(number_at(bytes + kFactsAt), size - name_at);
  return std::string(reinterpret_cast<const char*>(bytes + name_at), length);
}

/// As in "the adapter a" or "no adapter".
std::string describe_adapter(const std::string& name) {
  return name.empty() ? "no adapter" : "the adapter " + name;
}

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

std::vector<uint8_t> Session::header() const {
  std::vector<uint8_t> bytes(kMagic, kMagic + kMagicBytes);
  append(&bytes, adapter().empty() ? kVersion : kAdapterVersion);
  append(&bytes, 0);  // the checksum
  append(&bytes, length());
  if (!adapter().empty()) {
    append(&bytes, adapter().size());
    bytes.insert(bytes.end(), adapter().begin(), adapter().end());
  }
  append(&bytes, programs_.size());
  for (const auto& [number, program] : programs_) {
    const ProgramCaches& caches = current_->second.programs.at(number);
    append(&bytes, program.checksum);
    append(&bytes, caches.size());
    for (const KvCache* cache : caches) {
      append(&bytes, cache->geometry().heads);
      append(&bytes, cache->geometry().head_dim);
      append(&bytes, cache->geometry().capacity);
      append(&bytes, static_cast<size_t>(cache->geometry().type));
      append(&bytes, cache->geometry().window);
    }
  }
  return bytes;
}

size_t Session::saved_bytes() const {
  size_t bytes = header().size();
  for (const KvCache* cache : each_current()) {
    bytes += sizeof(uint32_t) + cache->saved_bytes(length());
  }
  return bytes;
}

Status Session::save(void* data, size_t size) const {
  if (size != saved_bytes()) {
    return Status::error("cannot save the cache to " + std::to_string(size) +
                         " bytes: it takes exactly " + std::to_string(saved_bytes()));
  }
  auto* bytes = static_cast<uint8_t*>(data);
  std::vector<uint8_t> start = header();
  for (const KvCache* cache : each_current()) append(&start, cache->oldest());
  uint8_t* to = std::copy(start.begin(), start.end(), bytes);
  for (const KvCache* cache : each_current()) {
    cache->save(length(), to);
    to += cache->saved_bytes(length());
  }
  const uint32_t checksum = crc32(bytes + kLengthAt, size - kLengthAt);
  std::memcpy(bytes + kChecksumAt, &checksum, sizeof(checksum));
  return {};
}

Status Session::restore(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const std::vector<uint8_t> expected = header();
  const Status foreign = Status::error(
      "this is not a saved KV cache of this program: save one with this program first");
  if (size < kFactsAt || std::memcmp(bytes, kMagic, kMagicBytes) != 0) return foreign;
  const uint32_t version = number_at(bytes + kVersionAt);
  if (version != kVersion && version != kAdapterVersion) {
    return Status::error("the saved KV cache has version " + std::to_string(version) +
                         ", and this runtime reads versions " + std::to_string(kVersion) + " and " +
                         std::to_string(kAdapterVersion) + ": save it again");
  }
  const std::string saved = saved_adapter(bytes, size);
  if (saved == adapter() && size < expected.size()) return foreign;
  if (number_at(bytes + kChecksumAt) != crc32(bytes + kLengthAt, size - kLengthAt)) {
    return Status::error("the saved KV cache is damaged: its checksum is wrong: save it again");
  }
  if (saved != adapter()) {
    return Status::error("the saved KV cache was computed with " + describe_adapter(saved) +
                         ", and the current cache has " + describe_adapter(adapter()) +
                         ": choose the same adapter first, or save another");
  }
  if (std::memcmp(bytes + kFactsAt, expected.data() + kFactsAt, expected.size() - kFactsAt) != 0) {
    return Status::error(
        "the saved KV cache belongs to another program or another type of cache: restore it with "
        "the model and the options that saved it");
  }
  const size_t length = number_at(bytes + kLengthAt);
  const std::vector<KvCache*> caches = each_current();
  const size_t payload_at = expected.size() + caches.size() * sizeof(uint32_t);
  bool fits = size >= payload_at;
  size_t wanted = payload_at;
  for (size_t i = 0; fits && i < caches.size(); ++i) {
    const size_t oldest = number_at(bytes + expected.size() + i * sizeof(uint32_t));
    fits = caches[i]->geometry().can_hold(oldest, length);
    wanted += caches[i]->geometry().saved_bytes(oldest, length);
  }
  if (!fits || size != wanted) {
    return Status::error("the saved KV cache is damaged: " + std::to_string(size) +
                         " bytes do not hold its " + std::to_string(length) +
                         " positions: save it again");
  }
  const uint8_t* from = bytes + payload_at;
  for (size_t i = 0; i < caches.size(); ++i) {
    const size_t oldest = number_at(bytes + expected.size() + i * sizeof(uint32_t));
    caches[i]->restore(oldest, length, from);
    from += caches[i]->geometry().saved_bytes(oldest, length);
  }
  current_->second.length = length;
  return {};
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
