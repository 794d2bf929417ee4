// The wire format by hand: bytes from its public description, and bytes that are no message.
#include "troupe/report/protobuf_wire.h"

#include <limits>
#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

namespace {

using namespace std::string_literals;  // NOLINT: texts with NUL bytes
using troupe::DataError;
using troupe::WireReader;
using troupe::WireType;
using troupe::WireWriter;

int count_fields(const std::string& message) {
  int count = 0;
  for (WireReader fields(message); fields.next();) ++count;
  return count;
}

}  // namespace

TEST_SUITE("summaries") {
  TEST_CASE("protobuf_wire: the bytes are those of the format's description") {
    WireWriter writer;
    writer.put_integer(1, 150);
    writer.put_bytes(2, "testing");
    writer.put_float(3, 1.0F);
    writer.put_double(16, -2.0);
    CHECK(writer.message() == "\x08\x96\x01"s + "\x12\x07testing"s + "\x1D\x00\x00\x80\x3F"s +
                                  "\x81\x01\x00\x00\x00\x00\x00\x00\x00\xC0"s);
  }

  TEST_CASE("protobuf_wire: what was written is read") {
    for (const std::int64_t number :
         {std::int64_t{0}, std::int64_t{127}, std::int64_t{128}, std::int64_t{-1},
          std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
      WireWriter writer;
      writer.put_integer(536870911, number);
      writer.put_double(1, 0.1);
      WireReader reader(writer.message());
      REQUIRE(reader.next());
      CHECK(reader.is(536870911, WireType::varint));
      CHECK(static_cast<std::int64_t>(reader.integer()) == number);
      REQUIRE(reader.next());
      CHECK(reader.is(1, WireType::fixed64));
      CHECK(troupe::from_little_endian<double>(reader.bytes()) == 0.1);
      CHECK_FALSE(reader.next());
    }
  }

  TEST_CASE("protobuf_wire: bytes that are no message are refused") {
    CHECK(count_fields("") == 0);
    CHECK_THROWS_AS(count_fields("\x08"), DataError);                       // no value
    CHECK_THROWS_AS(count_fields("\x08\x80"), DataError);                   // half a number
    CHECK_THROWS_AS(count_fields("\x00\x00"s), DataError);                  // field 0
    CHECK_THROWS_AS(count_fields("\x0D\x00\x00\x00"s), DataError);          // 3 bytes of 4
    CHECK_THROWS_AS(count_fields("\x09\x00\x00\x00\x00"s), DataError);      // 4 bytes of 8
    CHECK_THROWS_AS(count_fields("\x12\x05test"), DataError);               // 4 bytes of 5
    CHECK_THROWS_AS(count_fields("\x0B\x0C"), DataError);                   // a group
    CHECK_THROWS_AS(count_fields("\x0E\x00"s), DataError);                  // wire type 6
    CHECK_THROWS_AS(count_fields("\xF8\xFF\xFF\xFF\x7F\x00"s), DataError);  // field of 32 bits
    const std::string longest = "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
    CHECK_THROWS_AS(count_fields(longest + "rest"), DataError);  // 2^64 - 1 bytes
    const std::string nine = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
    CHECK(count_fields("\x08" + nine + "\x01") == 1);
    CHECK_THROWS_AS(count_fields("\x08" + nine + "\x02"), DataError);      // 65 bits
    CHECK_THROWS_AS(count_fields("\x08" + nine + "\xFF\x01"), DataError);  // 11 bytes
  }
}
