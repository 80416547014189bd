#pragma once

#include <memory>
#include <vector>

#include "delegate/memory/workspace.h"
#include "delegate/ops/rows.h"
#include "delegate/program/call.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"
#include "kernels/kernels.h"

namespace thimble::cpu {

struct OpContext;

/// Is called with each op's output, while no thread works on it.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  /// \param values the first of `rows` rows of `width` floats; each starts `stride` floats after
  ///   the one before.
  virtual void on_output(const Op& op, const float* values, size_t rows, size_t width,
                         size_t stride) = 0;
};

/// Runs a program: the op list over chunks of a call's rows.
class CpuExecutor {
 public:
  /// \param weights in the order of the program, which they and `floats` must outlive.
  /// \param adapters the numbers of each, in the same way.
  static Result<std::unique_ptr<CpuExecutor>> create(Program program,
                                                     const kernels::Variant& kernels,
                                                     std::vector<kernels::PackedWeight> weights,
                                                     const float* floats,
                                                     std::shared_ptr<Session> session,
                                                     std::vector<const uint16_t*> adapters = {});
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  /// The program that memory is planned for, and that of the last call's samples.
  const Program& whole_program() const { return whole_; }
  const Program& program() const { return *program_; }

  /// Prepares for the rows that a call's samples have.
  Status fit(const Call& call);

  kernels::CacheType cache_type() const { return cache_type_; }

  Session& session() const { return *session_; }

  /// Whether a call of these segments is possible.
  Status check(const Call& call) const;
  /// Runs a call that check() allows. On an error nothing was done. Allocates
  /// nothing, but once for rows that attend to each other and are more than a chunk.
  Status run(const Call& call);

 private:
  CpuExecutor(Program program, const kernels::Variant& kernels,
              std::vector<kernels::PackedWeight> weights, const float* floats,
              std::vector<const uint16_t*> adapters, std::shared_ptr<Session> session,
              Workspace workspace, kernels::CacheType cache_type, uint32_t number)
      : whole_(std::move(program)),
        program_(&whole_),
        kernels_(kernels),
        weights_(std::move(weights)),
        floats_(floats),
        adapters_(std::move(adapters)),
        session_(std::move(session)),
        workspace_(std::move(workspace)),
        cache_type_(cache_type),
        number_(number),
        slots_(whole_.slots.size()) {}

  /// Makes room for the call's rows that must run together.
  Status grow(const Call& call);
  void bind(const Call& call);
  CallAdapter adapter_of(const Call& call) const;
  /// One thread's part of a call, of whose rows `last` get logits.
  void run_on(size_t thread, const Call& call, Range last);
  /// The same of a program that needs whole segments: as many together as fit a chunk.
  void run_segments(const Call& call, OpContext& context) const;
  void run_chunk(const Call& call, const Chunk& chunk, OpContext& context) const;
  /// Its part of an op, on the rows of the chunk that the op computes.
  void run_op(const Op& op, OpRows rows, OpContext& context) const;
  /// Copies the last row of the logits to the program's own output, where that is elsewhere.
  void give_last(const Call& call, size_t count) const;

  const Program whole_;
  Program shortened_{};     ///< the same for fewer rows
  const Program* program_;  ///< one of them
  const kernels::Variant& kernels_;
  const std::vector<kernels::PackedWeight> weights_;
  const float* const floats_;
  const std::vector<const uint16_t*> adapters_;
  const std::shared_ptr<Session> session_;
  Workspace workspace_;
  const kernels::CacheType cache_type_;
  const uint32_t number_;  ///< of the program in the session
  std::vector<float*> slots_;
  std::vector<Piece> segments_;  ///< of the call, rows counted from its first
};

}  // namespace thimble::cpu
