#include "tests/simulation/fiber.h"

#include <cxxabi.h>
#include <link.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::simulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} * 1024;

Fiber* g_running = nullptr;

// Never given back while the world lives: a seed has a process of its own.
struct StackMemory {
  using traits_type = boost::context::stack_traits;
  static boost::context::stack_context allocate() {
    void* const memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    boost::context::stack_context made;
    made.size = kStackBytes;
    made.sp = static_cast<char*>(memory) + kStackBytes;
    return made;
  }
  // Of a fiber that has ended, by the next one's stack: it may still be needed for the way out.
  static void deallocate(boost::context::stack_context& /*old*/) noexcept {}
};

/// The thread-local variables of this program, as the one real thread has them now, and as a new
/// thread would find them.
struct ThreadLocals {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  std::vector<std::byte> fresh;
};

const ThreadLocals& thread_locals() {
  static const ThreadLocals found = [] {
    ThreadLocals block;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* into) {
          auto& found_block = *static_cast<ThreadLocals*>(into);
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& header = info->dlpi_phdr[i];
            if (header.p_type != PT_TLS) continue;
            found_block.at = static_cast<std::byte*>(info->dlpi_tls_data);
            found_block.bytes = header.p_memsz;
            found_block.fresh.assign(header.p_memsz, std::byte{0});
            std::memcpy(found_block.fresh.data(),
                        reinterpret_cast<const void*>(info->dlpi_addr + header.p_vaddr),
                        header.p_filesz);
          }
          return 1;  // the first one is this program
        },
        &block);
    return block;
  }();
  return found;
}

// What __cxa_get_globals() points to (Itanium C++ ABI, exception handling, 2.2.2).
struct ExceptionGlobals {
  void* caught;
  unsigned uncaught;
};

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  own_.variables = thread_locals().fresh;
  const boost::context::stack_context stack = StackMemory::allocate();
  stack_ = static_cast<char*>(stack.sp) - stack.size;
  context_ = std::make_unique<boost::context::fiber>(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), StackMemory(),
      [this](boost::context::fiber&& outside) {
        outside_ = std::move(outside);
        run();
        return std::move(outside_);
      });
}

Fiber::~Fiber() {
  if (!ended_) static_cast<void>(context_.release());
}

Fiber* Fiber::running() { return g_running; }

void Fiber::put_down(Belongings& belongings) {
  const ThreadLocals& block = thread_locals();
  belongings.error = errno;
  belongings.variables.assign(block.at, block.at + block.bytes);
  const auto& globals = *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
  belongings.exceptions = globals.caught;
  belongings.uncaught = globals.uncaught;
}

void Fiber::take_up(const Belongings& belongings) {
  const ThreadLocals& block = thread_locals();
  std::copy(belongings.variables.begin(), belongings.variables.end(), block.at);
  auto& globals = *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
  globals = {belongings.exceptions, belongings.uncaught};
  errno = belongings.error;
}

void Fiber::run() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &outer_stack_, &outer_stack_bytes_);
#endif
  body_();
  ended_ = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, outer_stack_, outer_stack_bytes_);
#endif
}

void Fiber::resume() {
  put_down(outer_);
  take_up(own_);
  g_running = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&outer_shadow_, stack_, kStackBytes);
#endif
  *context_ = std::move(*context_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outer_shadow_, nullptr, nullptr);
#endif
  g_running = nullptr;
  put_down(own_);
  take_up(outer_);
}

void Fiber::pause() { g_running->swap_out(); }

void Fiber::swap_out() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&own_shadow_, outer_stack_, outer_stack_bytes_);
#endif
  outside_ = std::move(outside_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_shadow_, &outer_stack_, &outer_stack_bytes_);
#endif
}

}  // namespace troupe::simulation
