#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/session/kv_cache.h"
#include "delegate/session/session.h"
#include "delegate/threads/thread_team.h"

namespace thimble::cpu {

/// The caches of one program, in its order; the session owns them.
using ProgramCaches = std::vector<KvCache*>;

/// A cache that a program wants: programs share those of one name.
struct NamedGeometry {
  std::string name;
  CacheGeometry geometry;
};

/// What the programs of a session share: threads, options, and their caches. session.h is its face
/// for callers, whose rules on threads hold here too.
class Session {
 public:
  /// The threads start with it.
  explicit Session(const thimble_session_options& options);

  const thimble_session_options& options() const { return options_; }
  ThreadTeam& team() { return team_; }

  /// Gives a program caches, in every cache there is; returns its number in this session. Those of
  /// a name that another program has are the same memory, if their geometry is.
  /// \param checksum of the program, which what is saved must match.
  Result<uint32_t> add_program(uint32_t checksum, const std::vector<NamedGeometry>& wanted);
  void remove_program(uint32_t program);
  /// The caches of a program in one of the session's caches, until that is freed.
  const ProgramCaches& caches(uint32_t program, int32_t cache) const;

  /// The type of caches: the one that was asked for, else the program's own.
  kernels::CacheType cache_type(kernels::CacheType of_program) const;

  /// The number of the current cache, which no other of this session has had.
  int32_t current() const { return current_->first; }
  bool has_cache(int32_t cache) const { return caches_.count(cache) > 0; }
  /// Positions that a cache holds.
  size_t length(int32_t cache) const { return caches_.at(cache).length; }
  size_t length() const { return current_->second.length; }
  void set_length(int32_t cache, size_t length) { caches_.at(cache).length = length; }

  /// Keeps what is asked of the next call, where this runtime can do it.
  Status ask_for(const thimble_segment* segments, size_t count);
  /// What was asked of this call; no more of the next.
  std::optional<thimble_segment> take_asked();

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
  /// What a number of the session stands for.
  struct Cache {
    size_t length = 0;
    std::map<std::string, KvCache> named;
    std::map<uint32_t, ProgramCaches> programs;  ///< pointers to those
  };
  struct LoadedProgram {
    uint32_t checksum;
    std::vector<std::string> caches;  ///< names, in its order
  };

  Status check_shared(const std::vector<NamedGeometry>& wanted) const;
  /// Points a program's caches to those of their names.
  static void tie(uint32_t number, const LoadedProgram& program, Cache* cache);
  /// The current caches, each once, in the order of the programs.
  std::vector<KvCache*> each_current() const;
  /// What comes before the keys and values in a saved cache.
  std::vector<uint8_t> header() const;
  size_t payload_bytes(size_t length) const;

  const thimble_session_options options_;
  ThreadTeam team_;
  std::map<uint32_t, LoadedProgram> programs_;
  uint32_t next_program_ = 0;
  std::map<int32_t, Cache> caches_;
  std::map<int32_t, Cache>::iterator current_;
  int32_t next_cache_ = 1;
  std::optional<thimble_segment> asked_;
  std::string description_;
};

/// The open session of an id; null when there is none.
std::shared_ptr<Session> find_session(int32_t id);

}  // namespace thimble::cpu
