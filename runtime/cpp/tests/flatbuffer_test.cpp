// Reads a hand-laid flatbuffer, whole and damaged; exits 1 and says where when a check fails.

#include "core/flatbuffer.h"

#include <cstdio>
#include <vector>

namespace thimble {
namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "flatbuffer_test: expected %s\n", what);
  ++failures;
}

class Writer {
 public:
  template <typename T>
  Writer& put(T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    data_.insert(data_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  Writer& put_text(std::string_view text) {
    data_.insert(data_.end(), text.begin(), text.end());
    return *this;
  }
  const std::vector<uint8_t>& data() const { return data_; }

 private:
  std::vector<uint8_t> data_;
};

// table Root { number: uint; name: string; values: [ushort]; children: [Child]; words: [string];
//              missing: uint; }
// table Child { byte: ubyte; }
std::vector<uint8_t> sample() {
  Writer out;
  out.put<uint32_t>(24).put_text("TEST");                    // 0: root at 24, identifier
  out.put<uint16_t>(14).put<uint16_t>(24);                   // 8: vtable, table of 24 bytes
  out.put<uint16_t>(4).put<uint16_t>(8).put<uint16_t>(12);   // 12: number, name, values
  out.put<uint16_t>(16).put<uint16_t>(20).put<uint16_t>(0);  // 18: children, words, padding
  out.put<int32_t>(16).put<uint32_t>(77);                    // 24: to the vtable; number
  out.put<uint32_t>(16).put<uint32_t>(20);                   // 32: name at 48, values at 56
  out.put<uint32_t>(28).put<uint32_t>(48);                   // 40: children at 68, words at 92
  out.put<uint32_t>(3).put_text("abc").put<uint8_t>(0);      // 48
  out.put<uint32_t>(3).put<uint16_t>(1).put<uint16_t>(2);    // 56
  out.put<uint16_t>(65535).put<uint16_t>(0);                 // 64: last value, padding
  out.put<uint32_t>(1).put<uint32_t>(12);                    // 68: one child, at 84
  out.put<uint16_t>(0).put<uint16_t>(6).put<uint16_t>(5);    // 76: padding, vtable at 78
  out.put<uint16_t>(4);                                      // 82: its byte at 4
  out.put<int32_t>(6).put<uint8_t>(9).put<uint8_t>(0);       // 84: the child
  out.put<uint16_t>(0);                                      // 90
  out.put<uint32_t>(2).put<uint32_t>(8).put<uint32_t>(8);    // 92: words at 104 and 108
  out.put<uint32_t>(0);                                      // 104: ""
  out.put<uint32_t>(2).put_text("hi").put<uint16_t>(0);      // 108
  return out.data();
}

// Reads everything the sample holds, through whatever its bytes now say.
uint64_t read_all(const std::vector<uint8_t>& data) {
  const FlatbufferTable root = flatbuffer_root(data.data(), data.size(), "TEST");
  uint64_t sum = root.scalar<uint32_t>(0) + root.scalar<uint64_t>(5, 1);
  for (const char c : root.string(1)) sum += static_cast<uint8_t>(c);
  const auto values = root.vector<uint16_t>(2);
  for (size_t i = 0; i < values.size(); ++i) sum += values[i];
  const FlatbufferTables children = root.tables(3);
  for (size_t i = 0; i < children.size(); ++i) sum += children[i].scalar<uint8_t>(0);
  const FlatbufferStrings words = root.strings(4);
  for (size_t i = 0; i < words.size(); ++i) sum += words[i].size();
  return sum;
}

void test_reads_every_kind_of_field() {
  const std::vector<uint8_t> data = sample();
  const FlatbufferTable root = flatbuffer_root(data.data(), data.size(), "TEST");
  expect(root.valid(), "a valid root");
  expect(root.scalar<uint32_t>(0) == 77, "number == 77");
  expect(root.string(1) == "abc", "name == abc");
  const auto values = root.vector<uint16_t>(2);
  expect(values.size() == 3 && values[0] == 1 && values[2] == 65535, "values == 1 2 65535");
  expect(root.tables(3).size() == 1, "one child");
  expect(root.tables(3)[0].valid() && root.tables(3)[0].scalar<uint8_t>(0) == 9, "its byte == 9");
  // A byte of a bool, whatever it is: with a sanitizer, one that is no bool ends the program.
  expect(root.tables(3)[0].scalar<bool>(0), "its byte to be true");
  expect(!root.tables(3)[0].scalar<bool>(1), "a byte that is absent to be false");
  expect(root.strings(4).size() == 2 && root.strings(4)[0].empty(), "an empty first word");
  expect(root.strings(4)[1] == "hi", "words[1] == hi");
}

void test_absent_fields_read_as_defaults() {
  const std::vector<uint8_t> data = sample();
  const FlatbufferTable root = flatbuffer_root(data.data(), data.size(), "TEST");
  expect(!root.has(5) && root.has(0), "has() to tell absent from present");
  expect(root.scalar<uint32_t>(5, 13) == 13, "the default of an absent scalar");
  expect(root.string(99).empty() && root.vector<uint32_t>(99).empty(), "absent fields empty");
  expect(!root.table(99).valid() && root.tables(99).size() == 0, "absent tables invalid");
  expect(!flatbuffer_root(data.data(), data.size(), "ELSE").valid(), "another identifier refused");
}

// Under AddressSanitizer a read outside the exact-size copies ends the program.
void test_damage_never_reads_outside() {
  const std::vector<uint8_t> whole = sample();
  uint64_t sum = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    sum += read_all(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<long>(size)));
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<uint8_t> damaged = whole;
      damaged[at] = static_cast<uint8_t>(value);
      sum += read_all(damaged);
    }
  }
  for (size_t at = 0; at + 4 <= whole.size(); ++at) {
    for (const uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xfffffff0u, 0xffffffffu}) {
      std::vector<uint8_t> damaged = whole;
      std::memcpy(damaged.data() + at, &value, sizeof(value));
      sum += read_all(damaged);
    }
  }
  expect(sum != 0, "something read");
}

}  // namespace
}  // namespace thimble

int main() {
  thimble::test_reads_every_kind_of_field();
  thimble::test_absent_fields_read_as_defaults();
  thimble::test_damage_never_reads_outside();
  return thimble::failures == 0 ? 0 : 1;
}
