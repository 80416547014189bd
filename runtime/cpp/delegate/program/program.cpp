#include "delegate/program/program.h"

#include <optional>
#include <utility>

#include "core/crc32.h"
#include "core/flatbuffer.h"

namespace thimble::cpu {
namespace {

constexpr const char* kIdentifier = "THCP";

Status damaged(const std::string& what) {
  return Status::error("the CPU delegate's program is damaged: " + what +
                       ": export the model again");
}

/// The kind at `kIndex` of the variant, which the schema's union counts from 1.
template <size_t... kIndex>
Result<OpKind> read_kind(uint8_t kind, const FlatbufferTable& table,
                         std::index_sequence<kIndex...>) {
  if (!table.valid()) return damaged("an operator of kind " + std::to_string(kind) + " is empty");
  std::optional<OpKind> read;
  const auto read_as = [&](auto index) {
    using Kind = std::variant_alternative_t<index, OpKind>;
    if (kind == index + 1) read = Kind::read(table);
  };
  (read_as(std::integral_constant<size_t, kIndex>{}), ...);
  if (read.has_value()) return *read;
  return damaged("an operator has the unknown kind " + std::to_string(kind));
}

Status read_ops(const FlatbufferTables& tables, Program* program) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const FlatbufferTable table = tables[i];
    Result<OpKind> kind = read_kind(table.scalar<uint8_t>(1), table.table(2),
                                    std::make_index_sequence<std::variant_size_v<OpKind>>{});
    if (!kind.ok()) return kind.status();
    program->ops.push_back({std::string(table.string(0)), *kind, table.scalar<uint32_t>(3),
                            table.scalar<uint32_t>(4)});
  }
  return {};
}

Status read_weights(const FlatbufferTables& tables, Program* program) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const FlatbufferTable table = tables[i];
    const auto format = table.scalar<uint8_t>(4);
    if (format >= kernels::kFormats) {
      return damaged("weight " + std::to_string(i) + " has the unknown format " +
                     std::to_string(format));
    }
    program->weights.push_back({std::string(table.string(0)), table.scalar<uint32_t>(1),
                                table.scalar<uint32_t>(2), table.scalar<uint32_t>(3),
                                static_cast<kernels::WeightFormat>(format)});
  }
  return {};
}

Status read_values(const FlatbufferTables& tables, std::vector<Value>* values) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto role = tables[i].scalar<uint8_t>(0);
    if (role > static_cast<uint8_t>(Role::kRows)) {
      return damaged("an argument has the unknown role " + std::to_string(role));
    }
    values->push_back({static_cast<Role>(role), tables[i].scalar<uint32_t>(1)});
  }
  return {};
}

}  // namespace

size_t Program::snapshot_interval() const {
  constexpr size_t kMostBytes = size_t{64} << 20, kLeast = 4, kMost = 64, kStep = 16;
  size_t bytes = 0;
  for (const StateShape& state : states) bytes += state.bytes();
  if (bytes == 0 || !has_positions()) return 0;
  const size_t count = std::clamp(kMostBytes / bytes, kLeast, kMost);
  return kernels::round_up(kernels::divide_up(num_positions, count), kStep);
}

Result<Program> read_program(const uint8_t* data, size_t size) {
  const FlatbufferTable root = flatbuffer_root(data, size, kIdentifier);
  if (!root.valid()) return damaged("its header is wrong");
  const auto version = root.scalar<uint32_t>(0);
  if (version < kFirstProgramVersion || version > kProgramVersion) {
    return Status::error(
        "the CPU delegate's program has version " + std::to_string(version) +
        ", and this runtime reads versions " + std::to_string(kFirstProgramVersion) + " to " +
        std::to_string(kProgramVersion) + ": export the model again, or update the runtime");
  }
  Program program;
  program.checksum = crc32(data, size);
  program.floats = std::string(root.string(3));
  const auto slots = root.vector<uint32_t>(1);
  const auto heights = root.vector<uint32_t>(12);
  program.by_sample = heights.size() > 0;
  if (program.by_sample && heights.size() != slots.size()) {
    return damaged(std::to_string(slots.size()) + " slots have " + std::to_string(heights.size()) +
                   " heights");
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    program.slots.push_back({slots[i], false, program.by_sample ? heights[i] : 0});
  }
  program.shorter = root.vector<uint32_t>(13).copy();
  const FlatbufferTables caches = root.tables(4);
  for (size_t i = 0; i < caches.size(); ++i) {
    const FlatbufferTable cache = caches[i];
    program.caches.push_back({std::string(cache.string(0)), cache.scalar<uint32_t>(1),
                              cache.scalar<uint32_t>(2), cache.scalar<uint32_t>(3),
                              cache.scalar<uint32_t>(4)});
  }
  const FlatbufferTables states = root.tables(10);
  for (size_t i = 0; i < states.size(); ++i) {
    const FlatbufferTable state = states[i];
    program.states.push_back(
        {std::string(state.string(0)), state.scalar<uint32_t>(1), state.scalar<uint32_t>(2)});
  }
  const FlatbufferTables adapters = root.tables(9);
  for (size_t i = 0; i < adapters.size(); ++i) {
    const FlatbufferTable adapter = adapters[i];
    program.adapters.push_back({std::string(adapter.string(0)), std::string(adapter.string(1))});
  }
  program.original = root.scalar<uint32_t>(11);
  const auto cache_type = root.scalar<uint8_t>(5);
  if (cache_type > static_cast<uint8_t>(kernels::CacheType::kInt8)) {
    return damaged("its caches have the unknown type " + std::to_string(cache_type));
  }
  program.cache_type = static_cast<kernels::CacheType>(cache_type);
  Status status = read_weights(root.tables(2), &program);
  if (status.ok()) status = read_ops(root.tables(6), &program);
  if (status.ok()) status = read_values(root.tables(7), &program.inputs);
  if (status.ok()) status = read_values(root.tables(8), &program.outputs);
  if (status.ok()) status = check_program(&program);
  if (!status.ok()) return status;
  return program;
}

}  // namespace thimble::cpu
