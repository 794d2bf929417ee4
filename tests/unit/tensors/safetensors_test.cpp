#include "troupe/core/safetensors.h"

#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace {

using troupe::CheckpointError;
using troupe::SafetensorsContent;
using troupe::TensorType;
using troupe::TensorView;
using Bytes = std::vector<std::byte>;

Bytes written(const SafetensorsContent& content) {
  Bytes file;
  troupe::write_safetensors(content, [&](troupe::Span<const std::byte> bytes) {
    file.insert(file.end(), bytes.begin(), bytes.end());
  });
  return file;
}

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

// A file with this header and so many bytes of data.
Bytes file_of(const std::string& header, std::size_t data_bytes) {
  Bytes file(8 + header.size() + data_bytes);
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::byte>(header.size() >> (8 * i));
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

// "" if it is read, else the reason.
std::string refusal(const Bytes& file) {
  try {
    static_cast<void>(troupe::read_safetensors(file, "f"));
    return "";
  } catch (const CheckpointError& error) {
    return error.cause();
  }
}

const Bytes kWeight = counting(24);
const Bytes kFlags = counting(3);

SafetensorsContent small() {
  return {{{"flags", TensorType::u8, {3}, kFlags},
           {"w", TensorType::f32, {2, 3}, kWeight},
           {"none", TensorType::f64, {0}, {}}},
          {{"by", "test"}}};
}

bool same_values(const SafetensorsContent& a, const SafetensorsContent& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorView& x = a.tensors[i];
    const TensorView& y = b.tensors[i];
    if (x.dtype != y.dtype || x.shape != y.shape || x.bytes.size() != y.bytes.size() ||
        (!x.bytes.empty() && std::memcmp(x.bytes.data(), y.bytes.data(), x.bytes.size()) != 0)) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("safetensors: the bytes of a file are pinned") {
    const Bytes one = counting(2);
    const Bytes file = written({{{"a", TensorType::i16, {}, one}}, {{"k", "v"}}});
    std::string text(reinterpret_cast<const char*>(file.data()), file.size());
    const std::string header =
        R"({"__metadata__":{"k":"v"},"a":{"data_offsets":[0,2],"dtype":"I16","shape":[]}})";
    const std::size_t padded = (header.size() + 7) / 8 * 8;
    REQUIRE(text.size() == 8 + padded + 2);
    CHECK(text.substr(0, 8) == std::string(1, static_cast<char>(padded)) + std::string(7, '\0'));
    CHECK(text.substr(8, padded) == header + std::string(padded - header.size(), ' '));
    CHECK(text.substr(8 + padded) == "\x01\x02");
  }

  TEST_CASE("safetensors: what is written is read, and wide types come first, data starts at 8") {
    const Bytes file = written(small());
    const SafetensorsContent content = troupe::read_safetensors(file, "f");
    REQUIRE(content.tensors.size() == 3);
    CHECK(content.tensors[0].name == "none");
    CHECK(content.tensors[1].name == "w");
    CHECK(content.tensors[1].shape == std::vector<std::int64_t>{2, 3});
    CHECK(content.tensors[2].name == "flags");
    CHECK((content.tensors[1].bytes.data() - file.data()) % 8 == 0);
    CHECK(std::memcmp(content.tensors[1].bytes.data(), kWeight.data(), 24) == 0);
    CHECK(content.metadata == std::map<std::string, std::string>{{"by", "test"}});
    CHECK(troupe::read_safetensors(written({}), "f").tensors.empty());
  }

  TEST_CASE("safetensors: every type goes there and back") {
    for (const TensorType dtype :
         {TensorType::f64, TensorType::f32, TensorType::f16, TensorType::bf16, TensorType::i64,
          TensorType::i32, TensorType::i16, TensorType::i8, TensorType::u8, TensorType::boolean}) {
      const Bytes values = counting(2 * troupe::bytes_of(dtype));
      const Bytes file = written({{{"x", dtype, {2}, values}}, {}});
      CHECK(troupe::read_safetensors(file, "f").tensors[0].dtype == dtype);
    }
  }

  TEST_CASE("safetensors: what cannot be read back is not written") {
    const auto refused = [](const SafetensorsContent& content) {
      int calls = 0;
      CHECK_THROWS_AS(troupe::write_safetensors(content, [&](auto) { ++calls; }), CheckpointError);
      CHECK(calls == 0);
    };
    refused({{{"a", TensorType::u8, {3}, kFlags}, {"a", TensorType::u8, {3}, kFlags}}, {}});
    refused({{{"__metadata__", TensorType::u8, {3}, kFlags}}, {}});
    refused({{{"a", TensorType::u8, {4}, kFlags}}, {}});
    refused({{{"a", TensorType::u8, {-3}, kFlags}}, {}});
    refused({{{"a\xff", TensorType::u8, {3}, kFlags}}, {}});
    refused({{{"a", TensorType::u8, {std::int64_t{1} << 62, 8}, {}}}, {}});
  }

  TEST_CASE("safetensors: a malformed file is refused with the reason") {
    struct Row {
      const char* header;
      std::size_t data_bytes;
      const char* reason;
    };
    const Row rows[] = {
        {"", 0, "no JSON object"},
        {"[]", 0, "no JSON object"},
        {" {}", 0, "no JSON object"},
        {"{", 0, "not JSON"},
        {"{} x", 0, "not JSON"},
        {"{}", 1, "1 bytes at its end belong to no tensor"},
        {R"({"a":1})", 0, "exactly dtype, shape and data_offsets"},
        {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "exactly dtype"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "exactly dtype"},
        {R"({"a":{"dtype":"U9","shape":[1],"data_offsets":[0,1]}})", 1, "unknown type"},
        {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1, "unknown type"},
        {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "shape is no list"},
        {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "no whole number"},
        {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "no whole number"},
        {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1, "no whole number"},
        {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1,
         "a dimension of"},
        {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
         "not its shape"},
        {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
         "not its shape"},
        {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", 1, "not its shape"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "must have two offsets"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "bytes 1 to 0 of 1"},
        {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "bytes 0 to 2 of 1"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}})", 1,
         "no whole number"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "leave a hole"},
        {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
         3, "overlap"},
        {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         1, "key 'a' twice"},
        {R"({"__metadata__":{"a":1}})", 0, "is no text"},
        {R"({"__metadata__":[]})", 0, "is no object"},
        {"{\"\xff\":1}", 0, "not JSON"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.header);
      const std::string reason = refusal(file_of(row.header, row.data_bytes));
      CAPTURE(reason);
      CHECK(reason.find(row.reason) != std::string::npos);
    }
    std::string deep = R"({"a":)";
    deep += std::string(100'000, '[');
    CHECK(refusal(file_of(deep, 0)).find("deeper than") != std::string::npos);
  }

  TEST_CASE("safetensors: a header length beyond the file or 100 MB is refused") {
    Bytes file = file_of("{}", 0);
    CHECK(refusal(file).empty());
    file[0] = std::byte{3};
    CHECK(refusal(file).find("header of 3 bytes") != std::string::npos);
    file[7] = std::byte{0xff};
    CHECK(refusal(file).find("at most 100000000") != std::string::npos);
  }

  TEST_CASE("safetensors: truncated at any byte, it is refused") {
    const Bytes file = written(small());
    for (std::size_t size = 0; size < file.size(); ++size) {
      CAPTURE(size);
      // A buffer of exactly this size, so that a sanitizer sees every byte read beyond it.
      const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK_FALSE(refusal(part).empty());
    }
  }

  TEST_CASE("safetensors: a flipped bit in the header is refused or changes no tensor's values") {
    // A letter of a name may change: that is another valid file, which the manifest's digest finds.
    const Bytes file = written(small());
    const SafetensorsContent original = troupe::read_safetensors(file, "f");
    const std::size_t header_end = file.size() - kWeight.size() - kFlags.size();
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * header_end; ++bit) {
      CAPTURE(bit);
      Bytes flipped = file;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      try {
        const bool same = same_values(troupe::read_safetensors(flipped, "f"), original);
        CHECK(same);
      } catch (const CheckpointError&) {
        ++refused;
      }
    }
    CHECK(refused > 1000);
  }
}
