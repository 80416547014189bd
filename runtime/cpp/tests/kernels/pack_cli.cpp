// Packs the weight on standard input with the reference packers, for a comparison of bytes.
//
// usage: kernel_pack_cli FORMAT ROWS COLUMNS GROUP_SIZE
// FORMAT is a name below. Standard input: values (int8, or float), then the scales of the format:
// on two levels, multiples (uint8) and row scales (float); of groups, float16 (uint16); of rows,
// float.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/layout/pack.h"

namespace {

using namespace thimble::kernels;

template <typename T>
std::vector<T> read_array(size_t count, bool* ok) {
  std::vector<T> values(count);
  *ok = *ok && std::fread(values.data(), sizeof(T), count, stdin) == count;
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  constexpr const char* kNames[] = {"int4_two_level", "int5_two_level", "int6_two_level",
                                    "int4",           "int8",           "int8_groups",
                                    "float32",        "int2_two_level", "int3_two_level"};
  constexpr size_t kCount = sizeof kNames / sizeof kNames[0];
  size_t kind = 0;
  while (kind < kCount && std::strcmp(argv[1], kNames[kind]) != 0) ++kind;
  if (kind == kCount) return 2;
  const WeightFormat format = static_cast<WeightFormat>(kind);
  const size_t rows = std::strtoull(argv[2], nullptr, 10);
  const size_t columns = std::strtoull(argv[3], nullptr, 10);
  const size_t group_size = std::strtoull(argv[4], nullptr, 10);
  const size_t groups = group_size > 0 ? divide_up(columns, group_size) : 0;
  const PackedWeight weight{nullptr, rows, stored_columns(format, columns, group_size), group_size,
                            format};
  std::vector<uint8_t> out(weight.bytes());
  bool ok = true;
  if (format == WeightFormat::kFloat32) {
    const auto values = read_array<float>(rows * columns, &ok);
    pack_float32(values.data(), rows, columns, out.data());
  } else {
    const auto values = read_array<int8_t>(rows * columns, &ok);
    if (has_two_levels(format)) {
      const auto multiples = read_array<uint8_t>(rows * groups, &ok);
      const auto row_scales = read_array<float>(rows, &ok);
      pack_two_level(format, values.data(), multiples.data(), row_scales.data(), rows, columns,
                     group_size, out.data());
    } else if (in_groups(format)) {
      const auto scales = read_array<uint16_t>(rows * groups, &ok);
      const auto pack = format == WeightFormat::kInt4 ? pack_int4 : pack_int8_groups;
      pack(values.data(), scales.data(), rows, columns, group_size, out.data());
    } else {
      const auto row_scales = read_array<float>(rows, &ok);
      pack_int8(values.data(), row_scales.data(), rows, columns, out.data());
    }
  }
  if (!ok) return 1;
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
