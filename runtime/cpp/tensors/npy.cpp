#include "tensors/npy.h"

#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "platform/mapped_file.h"
#include "platform/output_file.h"

namespace thimble {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the elements, as numpy writes them
constexpr size_t kMostSizes = 16;  // of a shape, which ExecuTorch takes

struct Header {
  std::string type;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the header, a dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
/// 3), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::optional<Header> read() {
    Header header;
    bool has_type = false, has_order = false, has_shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      std::string key;
      if (!read_string(&key) || !take(':')) return std::nullopt;
      bool read = false;
      if (key == "descr") read = has_type = read_string(&header.type);
      if (key == "fortran_order") read = has_order = read_bool(&header.fortran_order);
      if (key == "shape") read = has_shape = read_shape(&header.shape);
      if (!read) return std::nullopt;
      (void)take(',');
    }
    if (!has_type || !has_order || !has_shape) return std::nullopt;
    return header;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front()))) {
      text_.remove_prefix(1);
    }
  }

  bool take(char expected) {
    skip_spaces();
    if (text_.empty() || text_.front() != expected) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool read_string(std::string* value) {
    skip_spaces();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return false;
    const size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return false;
    *value = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }

  bool read_bool(bool* value) {
    skip_spaces();
    for (const auto& [word, meaning] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.rfind(word, 0) != 0) continue;
      text_.remove_prefix(std::strlen(word));
      *value = meaning;
      return true;
    }
    return false;
  }

  bool read_shape(Shape* shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      int64_t size = 0;
      size_t digits = 0;
      for (; digits < text_.size() && std::isdigit(static_cast<unsigned char>(text_[digits]));
           ++digits) {
        if (size > std::numeric_limits<int32_t>::max()) return false;
        size = size * 10 + (text_[digits] - '0');
      }
      if (digits == 0 || shape->size() == kMostSizes) return false;
      text_.remove_prefix(digits);
      shape->push_back(size);
      (void)take(',');
    }
    return true;
  }

  std::string_view text_;
};

/// The bytes of the elements; nothing if their number is beyond any file's.
std::optional<size_t> bytes_of(const Shape& shape, size_t element) {
  size_t bytes = element;
  for (const int64_t size : shape) {
    const auto count = static_cast<size_t>(size);
    if (count != 0 && bytes > std::numeric_limits<size_t>::max() / count) return std::nullopt;
    bytes *= count;
  }
  return bytes;
}

/// From column by column to row by row.
std::vector<uint8_t> by_rows(const uint8_t* columns, const Shape& shape, size_t element) {
  const auto count = static_cast<size_t>(element_count(shape));
  std::vector<uint8_t> rows(count * element);
  Shape index(shape.size(), 0);
  for (size_t target = 0; target < count; ++target) {
    size_t source = 0, stride = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      source += static_cast<size_t>(index[i]) * stride;
      stride *= static_cast<size_t>(shape[i]);
    }
    std::memcpy(rows.data() + target * element, columns + source * element, element);
    for (size_t i = shape.size(); i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
  }
  return rows;
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  platform::MappedFile file;
  std::string reason;
  using Error = platform::MappedFile::Error;
  const Error error = file.open(path, &reason);
  if (error == Error::kCannotOpen || error == Error::kCannotMap) {
    return Status::error("cannot read " + path + ": " + reason + ": name a .npy file");
  }
  if (error == Error::kDirectory) {
    return Status::error(path + " is a directory: name a .npy file");
  }
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const Status other = Status::error(path + " is not a .npy file: write one with numpy.save()");
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < 10) return other;
  const int version = bytes[6];
  if (version < 1 || version > 3) return other;
  size_t start = version == 1 ? 10 : 12, length = 0;
  if (bytes.size() < start) return other;
  for (size_t i = start; i-- > 8;) length = length << 8 | static_cast<uint8_t>(bytes[i]);
  if (length > bytes.size() - start) return other;
  const std::optional<Header> header = HeaderReader(bytes.substr(start, length)).read();
  if (!header) return other;
  const ElementType* type = find_numpy_type(header->type);
  if (type == nullptr) {
    return Status::error(path + " has elements of type '" + header->type +
                         "', but must have one of " + element_type_names() +
                         ", little endian: convert it with astype()");
  }
  start += length;
  const std::optional<size_t> size = bytes_of(header->shape, type->size);
  if (!size || *size != bytes.size() - start) {
    return Status::error(path + " is cut or damaged: it has " +
                         std::to_string(bytes.size() - start) + " bytes of elements, but " +
                         to_string(header->shape) + " of " + std::string(type->name) + " takes " +
                         (size ? std::to_string(*size) : "more") + ": write it again");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + start;
  Tensor tensor{type, header->shape, {}};
  if (header->fortran_order && header->shape.size() > 1) {
    tensor.data = by_rows(data, header->shape, type->size);
  } else {
    tensor.data.assign(data, data + *size);
  }
  return tensor;
}

Status write_npy(const std::string& path, const TensorView& tensor) {
  const bool is_bfloat16 = tensor.type->numpy.empty();
  const ElementType& type = is_bfloat16 ? *find_element_type("float32") : *tensor.type;
  std::string header = "{'descr': '" + std::string(type.numpy) +
                       "', 'fortran_order': False, 'shape': " + to_string(tensor.shape) + ", }";
  const size_t before = kMagic.size() + 4;
  header.append(kAlignment - 1 - (before + header.size()) % kAlignment, ' ');
  header += '\n';
  if (header.size() > 0xFFFF) return Status::error(path + " would have too long a header");
  std::string head(kMagic);
  head +=
      {'\1', '\0', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  head += header;
  const std::string_view elements(static_cast<const char*>(tensor.data), tensor.bytes());
  if (!is_bfloat16) return platform::write_file(path, {head, elements});
  std::vector<float> wide(static_cast<size_t>(element_count(tensor.shape)));
  for (size_t i = 0; i < wide.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, elements.data() + 2 * i, sizeof(half));
    wide[i] = from_bfloat16(half);
  }
  const std::string_view floats(reinterpret_cast<const char*>(wide.data()),
                                wide.size() * sizeof(float));
  return platform::write_file(path, {head, floats});
}

}  // namespace thimble
