#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/session/kv_cache.h"
#include "delegate/session/segments.h"
#include "delegate/session/session.h"
#include "delegate/session/state_cache.h"
#include "delegate/threads/thread_team.h"

namespace thimble::cpu {

/// The caches and states of one program, in the program's order; the session owns them.
struct ProgramCaches {
  std::vector<KvCache*> kv;
  std::vector<StateCache*> states;
};

/// A cache that a program needs: programs share caches of the same name.
struct NamedGeometry {
  std::string name;
  CacheGeometry geometry;
};

/// A state that a program needs, likewise.
struct NamedState {
  std::string name;
  StateGeometry geometry;
};

/// What the programs of a session share: threads, options, and their caches. session.h is the
/// interface for callers; its rules on threads apply here too.
class Session {
 public:
  /// Starts the threads.
  explicit Session(const thimble_session_options& options);

  const thimble_session_options& options() const { return options_; }
  ThreadTeam& team() { return team_; }

  /// Gives a program its caches, in every cache of the session; returns the program's number in
  /// this session. Caches with the name and the geometry of another program's are the same memory.
  /// \param checksum of the program; a saved cache must have the same.
  /// \param adapters names, in the program's order.
  /// \param original of the program; 0: it has no two rotary tables.
  Result<uint32_t> add_program(uint32_t checksum, const std::vector<NamedGeometry>& wanted,
                               const std::vector<std::string>& adapters = {},
                               const std::vector<NamedState>& states = {}, size_t original = 0);
  void remove_program(uint32_t program);
  /// The caches of a program in one of the session's caches; valid until that is freed.
  const ProgramCaches& caches(uint32_t program, int32_t cache) const;

  /// The type of caches: the requested one, else the program's own.
  kernels::CacheType cache_type(kernels::CacheType of_program) const;

  /// The number of the current cache; the session never reuses a number.
  int32_t current() const { return current_->first; }
  bool has_cache(int32_t cache) const { return caches_.count(cache) > 0; }
  /// The number of positions in a cache.
  size_t length(int32_t cache) const { return caches_.at(cache).length; }
  size_t length() const { return current_->second.length; }
  void set_length(int32_t cache, size_t length) { caches_.at(cache).length = length; }
  /// Records that a call of a program wrote `rows` positions of a cache from `start` on, up to its
  /// new length.
  void set_written(uint32_t program, int32_t cache, size_t start, size_t rows);
  /// Checks that a program's caches still have all that a token at position `start` sees.
  Status check_start(uint32_t program, int32_t cache, size_t start) const;
  /// Makes a program's states those of a position that check_start() allows.
  void return_to(uint32_t program, int32_t cache, size_t start);

  /// The adapters of all programs, by name; an element stays where it is.
  const std::deque<std::string>& adapters() const { return adapters_; }
  /// The name of the current cache's adapter; "" if it has none.
  const std::string& adapter() const { return name_of(current_->second.adapter); }
  /// Makes calls of the current cache run with an adapter, "": none. All positions are removed if
  /// they were computed with another.
  Status use_adapter(const std::string& name);
  /// The adapter of a cache, as a program counts its own; -1: none of them.
  int32_t adapter_of(uint32_t program, int32_t cache) const;

  /// The longest text that uses the first of two rotary tables; 0: the programs have one.
  size_t original() const;
  /// Whether the current cache uses the second.
  bool is_long() const { return current_->second.is_long; }
  /// Chooses the rotary table of the current cache, THIMBLE_TABLE_...
  Status use_table(int32_t table);
  /// Checks that a segment does not mix both in a cache.
  Status check_table(const Segment& segment) const;
  /// Whether a segment that check_table() allows uses the second, which its cache then has.
  bool choose_table(const Segment& segment);

  /// Stores the segments of the next call.
  Status ask_for(const thimble_segment* segments, size_t count, float* logits, size_t logits_size);
  /// Returns the segments of this call and clears them.
  AskedSegments take_asked();

  /// The largest length, up to `length`, to which the current cache can be truncated.
  size_t kept_by_truncate(size_t length) const;
  Status truncate(int64_t length);
  size_t saved_bytes() const;
  Status save(void* data, size_t size) const;
  Status restore(const void* data, size_t size);
  Result<int32_t> fork();
  Status use(int32_t cache);
  Status free(int32_t cache);

  const std::string& description() const { return description_; }
  void set_description(std::string description) { description_ = std::move(description); }

 private:
  static constexpr int32_t kNoAdapter = -1;

  /// What a cache number of the session refers to.
  struct Cache {
    size_t length = 0;
    int32_t adapter = kNoAdapter;  ///< index in adapters_
    int32_t table = THIMBLE_TABLE_BY_CALL;
    bool is_long = false;  ///< whether it uses the second of two rotary tables
    std::map<std::string, KvCache> named;
    std::map<std::string, StateCache> states;
    std::map<uint32_t, ProgramCaches> programs;  ///< pointers to those
  };
  struct LoadedProgram {
    uint32_t checksum;
    std::vector<std::string> caches;  ///< names, in the program's order
    std::vector<std::string> states;  ///< the same
    std::vector<int32_t> adapters;    ///< indices in adapters_, in the program's order
    size_t original;                  ///< of Program
  };

  /// The index of an adapter; kNoAdapter if no program has it.
  int32_t find_adapter(const std::string& name) const;
  const std::string& name_of(int32_t adapter) const;
  void clear_current();
  Status check_shared(const std::vector<NamedGeometry>& wanted,
                      const std::vector<NamedState>& states) const;
  /// Connects a program's caches with those of the same names.
  static void tie(uint32_t number, const LoadedProgram& program, Cache* cache);
  /// Returns the current caches, each once, in the order of the programs.
  std::vector<KvCache*> each_current() const;
  std::vector<StateCache*> each_state() const;
  /// Returns what comes before the keys and values in a saved cache of a rotary table.
  std::vector<uint8_t> header(bool is_long) const;

  const thimble_session_options options_;
  ThreadTeam team_;
  std::map<uint32_t, LoadedProgram> programs_;
  uint32_t next_program_ = 0;
  std::map<int32_t, Cache> caches_;
  std::map<int32_t, Cache>::iterator current_;
  int32_t next_cache_ = 1;
  std::deque<std::string> adapters_;
  AskedSegments asked_;
  std::string description_;
};

/// The open session of an id; null when there is none.
std::shared_ptr<Session> find_session(int32_t id);

}  // namespace thimble::cpu
