#include "tensors/signature.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "constraint/json.h"
#include "core/flatbuffer.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;
constexpr int64_t kUnbounded = int64_t{1} << 31;  // what no tensor has

enum SizeField { kLeast, kMost, kSymbol, kFactor, kOffset };
enum TensorField { kName, kType, kSizes, kHidesNan };
enum MethodField { kMethodName, kInputs, kOutputs, kState };
enum SignatureField { kSignatureVersion, kMethods };

std::string joined(const std::vector<TensorSpec>& tensors) {
  std::string names;
  for (const TensorSpec& tensor : tensors) names += (names.empty() ? "" : ", ") + tensor.name;
  return names;
}

bool read_tensors(const FlatbufferTables& tables, std::vector<TensorSpec>* tensors) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const FlatbufferTable table = tables[i];
    TensorSpec tensor{std::string(table.string(kName)),
                      find_element_type(table.string(kType)),
                      {},
                      std::string(table.string(kHidesNan))};
    if (tensor.type == nullptr || tensor.name.empty()) return false;
    const FlatbufferTables sizes = table.tables(kSizes);
    for (size_t j = 0; j < sizes.size(); ++j) {
      const FlatbufferTable size = sizes[j];
      tensor.sizes.push_back({size.scalar<int64_t>(kLeast), size.scalar<int64_t>(kMost),
                              std::string(size.string(kSymbol)), size.scalar<int64_t>(kFactor, 1),
                              size.scalar<int64_t>(kOffset)});
    }
    tensors->push_back(std::move(tensor));
  }
  return true;
}

std::string describe(const SizeRange& size) {
  const std::string least = std::to_string(size.least);
  if (size.least == size.most) return least;
  const std::string range =
      size.most >= kUnbounded ? least + " or more" : least + " to " + std::to_string(size.most);
  return size.symbol.empty() ? range : size.symbol + ": " + range;
}

/// The place of an element, such as "(0, 2)".
std::string place_of(int64_t index, const Shape& shape) {
  Shape place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = index % shape[i];
    index /= shape[i];
  }
  return to_string(place);
}

Status check_shape(const TensorSpec& spec, const TensorView& given,
                   std::map<std::string, std::pair<int64_t, std::string>>* symbols) {
  const Status wrong = Status::error("the input " + spec.name + " has the shape " +
                                     to_string(given.shape) + ", but must be " + spec.describe());
  if (given.shape.size() != spec.sizes.size()) return wrong;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    const SizeRange& size = spec.sizes[i];
    const int64_t value = given.shape[i];
    if (value < size.least || value > size.most) return wrong;
    if (size.symbol.empty()) continue;
    const int64_t rest = value - size.offset;
    if (size.factor == 0 || rest % size.factor != 0) {
      return Status::error("size " + std::to_string(i) + " of the input " + spec.name + " is " +
                           std::to_string(value) + ", but must be " + std::to_string(size.factor) +
                           " times a whole number" +
                           (size.offset == 0 ? "" : " plus " + std::to_string(size.offset)));
    }
    const auto [known, is_new] = symbols->insert({size.symbol, {rest / size.factor, spec.name}});
    if (!is_new && known->second.first != rest / size.factor) {
      return Status::error("the input " + spec.name + " has " + size.symbol + " = " +
                           std::to_string(rest / size.factor) + ", but " + known->second.second +
                           " has " + std::to_string(known->second.first) +
                           ": give inputs that belong together");
    }
  }
  return {};
}

}  // namespace

std::string TensorSpec::describe() const {
  std::string text;
  for (const SizeRange& size : sizes) text += (text.empty() ? "" : ", ") + thimble::describe(size);
  return std::string(type->name) + " (" + text + (sizes.size() == 1 ? ",)" : ")");
}

std::string MethodSignature::input_names() const { return joined(inputs); }

std::string MethodSignature::to_json() const {
  const auto tensors = [](const std::vector<TensorSpec>& specs) {
    std::string text;
    for (const TensorSpec& spec : specs) {
      std::string sizes;
      for (const SizeRange& size : spec.sizes) {
        sizes += (sizes.empty() ? "[" : ", [") + std::to_string(size.least) + ", " +
                 std::to_string(size.most) + ", " + quoted_json(size.symbol) + "]";
      }
      text += (text.empty() ? "{" : ", {") + ("\"name\": " + quoted_json(spec.name)) +
              ", \"type\": \"" + std::string(spec.type->name) + "\", \"sizes\": [" + sizes + "]}";
    }
    return "[" + text + "]";
  };
  std::string names;
  for (const std::string& each : state) {
    names += (names.empty() ? "" : ", ") + quoted_json(each);
  }
  return "{\"name\": " + quoted_json(name) + ", \"inputs\": " + tensors(inputs) +
         ", \"outputs\": " + tensors(outputs) + ", \"state\": [" + names + "]}";
}

Result<std::vector<MethodSignature>> read_signatures(std::string_view blob,
                                                     const std::string& path) {
  if (blob.empty()) {
    return Status::error(path +
                         " is a language model, which takes a prompt, and neither tensors nor "
                         "sound");
  }
  const FlatbufferTable root =
      flatbuffer_root(reinterpret_cast<const uint8_t*>(blob.data()), blob.size(), "THSG");
  const Status damaged = Status::error("the signature of " + path + " is damaged: export it again");
  if (!root.valid()) return damaged;
  const auto version = root.scalar<uint32_t>(kSignatureVersion);
  if (version != kVersion) {
    return Status::error(path + " has a signature of version " + std::to_string(version) +
                         ", and this runner reads version " + std::to_string(kVersion) +
                         ": export it again, or build a newer runner");
  }
  const FlatbufferTables methods = root.tables(kMethods);
  std::vector<MethodSignature> signatures(methods.size());
  for (size_t i = 0; i < methods.size(); ++i) {
    const FlatbufferTable table = methods[i];
    MethodSignature& signature = signatures[i];
    signature.name = table.string(kMethodName);
    if (signature.name.empty() || !read_tensors(table.tables(kInputs), &signature.inputs) ||
        !read_tensors(table.tables(kOutputs), &signature.outputs)) {
      return damaged;
    }
    const FlatbufferStrings state = table.strings(kState);
    for (size_t j = 0; j < state.size(); ++j) signature.state.emplace_back(state[j]);
  }
  if (signatures.empty()) return damaged;
  return signatures;
}

Result<std::vector<TensorView>> in_order(const MethodSignature& signature,
                                         const std::vector<TensorView>& inputs) {
  const std::vector<TensorSpec>& specs = signature.inputs;
  std::vector<const TensorView*> placed(specs.size(), nullptr);
  const std::string known = specs.empty() ? "no inputs" : signature.input_names();
  size_t next = 0;
  for (const TensorView& input : inputs) {
    size_t place = next;
    if (input.name.empty()) {
      while (place < specs.size() && placed[place] != nullptr) ++place;
      next = place + 1;
    } else {
      const auto entry = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) {
        return spec.name == input.name;
      });
      if (entry == specs.end()) {
        return Status::error("there is no input " + input.name + ": the program takes " + known);
      }
      place = static_cast<size_t>(entry - specs.begin());
      if (placed[place] != nullptr) {
        return Status::error("the input " + input.name + " is given twice: give it once");
      }
    }
    if (place >= specs.size()) {
      return Status::error(std::to_string(inputs.size()) + " inputs are given, but the program " +
                           "takes " + known);
    }
    placed[place] = &input;
  }
  std::vector<TensorView> ordered;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (placed[i] == nullptr) {
      return Status::error("the input " + specs[i].name + " is missing: give " + known);
    }
    ordered.push_back(*placed[i]);
  }
  return ordered;
}

Status check_inputs(const MethodSignature& signature, const std::vector<TensorView>& inputs) {
  std::map<std::string, std::pair<int64_t, std::string>> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSpec& spec = signature.inputs[i];
    const TensorView& given = inputs[i];
    // numpy has no bfloat16: float32 is rounded to it.
    const bool rounds = spec.type->name == "bfloat16" && given.type->name == "float32";
    if (given.type != spec.type && !rounds) {
      return Status::error("the input " + spec.name + " is " + std::string(given.type->name) +
                           ", but must be " +
                           (spec.type->numpy.empty() ? "float32" : std::string(spec.type->name)) +
                           ": convert it first");
    }
    Status status = check_shape(spec, given, &symbols);
    if (!status.ok()) return status;
    if (spec.hides_nan.empty()) continue;
    const std::optional<size_t> nan =
        find_nan(*given.type, given.data, static_cast<size_t>(element_count(given.shape)));
    if (!nan) continue;
    return Status::error("the input " + spec.name + " has a NaN at " +
                         place_of(static_cast<int64_t>(*nan), given.shape) +
                         ", which the program would lose (" + spec.hides_nan +
                         "): replace it first");
  }
  return {};
}

}  // namespace thimble
