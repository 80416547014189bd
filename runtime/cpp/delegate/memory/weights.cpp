#include "delegate/memory/weights.h"

#include <algorithm>
#include <cstring>

namespace thimble::cpu {
namespace {

using kernels::kLineBytes;
using kernels::round_up;

std::string megabytes(size_t bytes) {
  return bytes == 0 || bytes >> 20 != 0 ? std::to_string(bytes >> 20) + " MB"
                                        : std::to_string((bytes + 1023) >> 10) + " kB";
}

}  // namespace

Result<Weights> Weights::load(const Program& program,
                              const executorch::runtime::NamedDataMap& named_data,
                              bool huge_pages) {
  Weights weights;
  weights.huge_pages_ = huge_pages;
  Status status = weights.load_blobs(program, named_data);
  if (status.ok()) status = weights.check_sizes(program);
  if (!status.ok()) return status;
  const bool aligned = std::all_of(
      weights.data_.begin(), weights.data_.end(),
      [](const uint8_t* data) { return reinterpret_cast<uintptr_t>(data) % kLineBytes == 0; });
  if (huge_pages || !aligned) {
    status =
        weights.copy(huge_pages ? platform::Pages::Kind::kHuge : platform::Pages::Kind::kSmall);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < program.weights.size(); ++i) {
    weights.packed_.push_back(program.weights[i].packed(weights.data_[i]));
  }
  for (size_t i = 0; i < program.adapters.size(); ++i) {
    const uint8_t* numbers = weights.data_[program.weights.size() + i];
    weights.adapters_.push_back(reinterpret_cast<const uint16_t*>(numbers));
  }
  if (!program.floats.empty()) {
    weights.floats_ = reinterpret_cast<const float*>(weights.data_.back());
  }
  return weights;
}

Status Weights::load_blobs(const Program& program,
                           const executorch::runtime::NamedDataMap& named_data) {
  std::vector<std::string_view> keys;
  for (const Weight& weight : program.weights) keys.push_back(weight.key);
  for (const Adapter& adapter : program.adapters) keys.push_back(adapter.key);
  if (!program.floats.empty()) keys.push_back(program.floats);
  for (const std::string_view key : keys) {
    auto blob = named_data.get_data(key);
    if (!blob.ok()) {
      return Status::error("the program has no data " + std::string(key) +
                           ": export the model again");
    }
    data_.push_back(static_cast<const uint8_t*>(blob->data()));
    blobs_.push_back(std::move(*blob));
  }
  return {};
}

Status Weights::check_sizes(const Program& program) const {
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const size_t expected = program.weights[i].packed(nullptr).bytes();
    if (blobs_[i].size() == expected) continue;
    return Status::error("weight " + program.weights[i].key + " has " +
                         std::to_string(blobs_[i].size()) + " bytes, and its shape takes " +
                         std::to_string(expected) + ": export the model again");
  }
  for (size_t i = 0; i < program.adapters.size(); ++i) {
    const size_t have = blobs_[program.weights.size() + i].size() / sizeof(uint16_t);
    const Adapter& adapter = program.adapters[i];
    if (have >= adapter.num_halves) continue;
    return Status::error("the adapter " + adapter.name + " has " + std::to_string(have) +
                         " numbers, and the program uses " + std::to_string(adapter.num_halves) +
                         ": export the model again");
  }
  if (program.floats.empty() || blobs_.back().size() / sizeof(float) >= program.num_floats) {
    return {};
  }
  return Status::error("the program has " + std::to_string(blobs_.back().size()) +
                       " bytes of floats, and uses " + std::to_string(program.num_floats) +
                       " floats: export the model again");
}

Status Weights::copy(platform::Pages::Kind kind) {
  size_t bytes = 0;
  for (const auto& blob : blobs_) bytes += round_up(blob.size(), kLineBytes);
  copies_ = platform::Pages::allocate(bytes, kind);
  if (!copies_.valid()) {
    return Status::error("a copy of the weights, " + megabytes(bytes) +
                         ", does not fit into memory: run without huge pages");
  }
  uint8_t* to = copies_.data();
  for (size_t i = 0; i < blobs_.size(); ++i) {
    std::memcpy(to, data_[i], blobs_[i].size());
    data_[i] = to;
    to += round_up(blobs_[i].size(), kLineBytes);
    blobs_[i].Free();
  }
  return {};
}

std::string Weights::describe() const {
  if (!copies_.valid()) return "weights in place";
  if (!huge_pages_) return "weights copied";
  const size_t huge = std::min(copies_.huge_bytes(), copies_.size());
  return "weights in huge pages (" + megabytes(huge) + " of " + megabytes(copies_.size()) + ")";
}

}  // namespace thimble::cpu
