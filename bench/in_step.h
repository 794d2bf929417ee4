// InStep: two processes that wait for each other and exchange nothing else, by a word of each in a
// file that both have mapped. What is left of two loops that keep step like this is the most that
// two workers which train together can reach.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "troupe/core/failure.h"

namespace troupe::bench {

class InStep {
 public:
  /// `index`: 0 or 1. The file is made where it is missing.
  InStep(const std::string& file, int index) : index_(index) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const bool sized = fd >= 0 && ::ftruncate(fd, sizeof(Words)) == 0;
    void* const memory =
        sized ? ::mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
              : MAP_FAILED;
    if (fd >= 0) ::close(fd);
    if (memory == MAP_FAILED) {
      throw EnvironmentError("'" + file + "' cannot be mapped.", "look at TMPDIR's free space.");
    }
    words_ = static_cast<Words*>(memory);
  }
  ~InStep() { ::munmap(words_, sizeof(Words)); }
  InStep(const InStep&) = delete;
  InStep& operator=(const InStep&) = delete;

  /// Returns when the other one has come as often. Throws: TimeoutError.
  void meet() {
    const std::uint32_t mine = words_->met[index_].value.fetch_add(1) + 1;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (static_cast<std::int32_t>(words_->met[1 - index_].value.load() - mine) < 0) {
      if (std::chrono::steady_clock::now() > end)
        throw TimeoutError("the other loop has stopped.", "look at its log.");
      std::this_thread::yield();
    }
  }

 private:
  struct alignas(128) Word {
    std::atomic<std::uint32_t> value;
  };
  struct Words {
    Word met[2];
  };

  Words* words_ = nullptr;
  const int index_;
};

}  // namespace troupe::bench
