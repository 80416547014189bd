#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/kv_cache.h"
#include "delegate/session.h"
#include "delegate/thread_team.h"

namespace thimble::cpu {

/// The caches of one program: one for each of its attention operators.
using ProgramCaches = std::vector<KvCache>;

/// What the programs of a session share: threads, options, and their caches. session.h is its face
/// for callers, whose rules on threads hold here too.
class Session {
 public:
  /// The threads start with it.
  explicit Session(const thimble_session_options& options);

  const thimble_session_options& options() const { return options_; }
  ThreadTeam& team() { return team_; }

  /// Gives a program caches, in every cache there is; returns its number in this session.
  /// \param checksum of the program, which what is saved must match.
  Result<uint32_t> add_program(uint32_t checksum, const std::vector<CacheGeometry>& geometries);
  void remove_program(uint32_t program);
  /// The current caches of a program, until the next call that changes which is current.
  ProgramCaches& caches(uint32_t program);

  /// The type of caches: the one that was asked for, else the program's own.
  kernels::CacheType cache_type(kernels::CacheType of_program) const;

  /// The number of the current cache, which no other of this session has had.
  int32_t current() const { return current_->first; }
  /// Positions that the current cache holds.
  size_t length() const { return current_->second.length; }
  void set_length(size_t length) { current_->second.length = length; }

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
  struct Cache {
    size_t length = 0;
    std::map<uint32_t, ProgramCaches> programs;
  };

  /// What comes before the keys and values in a saved cache.
  std::vector<uint8_t> header() const;
  size_t payload_bytes(size_t length) const;

  const thimble_session_options options_;
  ThreadTeam team_;
  std::map<uint32_t, uint32_t> checksums_;  ///< by program
  uint32_t next_program_ = 0;
  std::map<int32_t, Cache> caches_;
  std::map<int32_t, Cache>::iterator current_;
  int32_t next_cache_ = 1;
  std::string description_;
};

/// The open session of an id; null when there is none.
std::shared_ptr<Session> find_session(int32_t id);

}  // namespace thimble::cpu
