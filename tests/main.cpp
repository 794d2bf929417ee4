// The doctest runner that every test program links.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "troupe/core/log.h"

int main(int argc, char** argv) {
  troupe::configure_log(troupe::LogLevel::warning, "");  // a passing test says nothing
  return doctest::Context(argc, argv).run();
}
