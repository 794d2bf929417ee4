// A program of somebody else's, for tests/consumer/ways.cmake: trains, and calls a function of
// std::filesystem that pip's LibTorch exports, too, where a program that took LibTorch's would end
// with SIGSEGV.
#include <filesystem>
#include <iostream>

#include "my_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  std::filesystem::create_directories("folder/below");
  std::cout << "removed " << std::filesystem::remove_all("folder") << " folders" << std::endl;
  return troupe::run_main([&] {
    const MyOptions options(argc, argv);
    troupe::run_job(MyHooks(options), options);
  });
}
