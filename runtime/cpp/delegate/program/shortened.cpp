#include <type_traits>
#include <utility>

#include "delegate/program/program.h"

namespace thimble::cpu {
namespace {

template <typename Kind, typename = void>
struct Shortens : std::false_type {};
template <typename Kind>
struct Shortens<Kind, std::void_t<decltype(std::declval<Kind&>().shorten(nullptr))>>
    : std::true_type {};

}  // namespace

Result<Program> shortened(const Program& whole, const std::vector<size_t>& heights) {
  std::vector<size_t> planned;
  for (const Slot& slot : whole.slots) planned.push_back(slot.height);
  Heights now(planned);
  Program program = whole;
  bool fits = true;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Value& input = program.inputs[i];
    if (input.role == Role::kRows) fits = fits && now.set(input.slot, heights[i]);
  }
  for (Op& op : program.ops) {
    fits = fits && std::visit(
                       [&](auto& kind) {
                         if constexpr (Shortens<std::decay_t<decltype(kind)>>::value) {
                           return kind.shorten(&now);
                         } else {
                           return false;
                         }
                       },
                       op.kind);
    if (!fits) {
      return Status::error("the call's samples are too short, or too long, for " + op.name +
                           ": give those of the program's signature");
    }
    op.height = now.of(std::visit([](const auto& kind) { return kind.output; }, op.kind));
  }
  for (uint32_t slot = 0; slot < program.slots.size(); ++slot) {
    program.slots[slot].height = now.of(slot);
  }
  return program;
}

}  // namespace thimble::cpu
