#include "troupe/core/sha256.h"

#include <string>
#include <vector>

#include "tests/support/test_prelude.h"

namespace sha256_test {

TEST_SUITE("core") {
  TEST_CASE("sha256: the vectors of FIPS 180-4") {
    CHECK(troupe::sha256_hex("") ==
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(troupe::sha256_hex("abc") ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  }

  TEST_CASE("sha256: pieces give the digest of the whole") {
    const std::vector<char> bytes(1000, 'a');
    troupe::Sha256 digest;
    digest.update(troupe::as_bytes(troupe::Span<const char>(bytes)).subspan(0, 300));
    digest.update(troupe::as_bytes(troupe::Span<const char>(bytes)).subspan(300, 700));
    CHECK(digest.hex() == troupe::sha256_hex(std::string(1000, 'a')));
  }
}

}  // namespace sha256_test
