#include "net/network_thread.h"

#include <pthread.h>
#include <signal.h>

#include <exception>
#include <utility>

namespace troupe {

NetworkThread::NetworkThread() : work_(boost::asio::make_work_guard(context_)) {}

NetworkThread::~NetworkThread() { stop(); }

void NetworkThread::start(std::function<void(const std::string&)> on_error) {
  // The thread inherits a full signal mask: signals belong to the thread that runs the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, on_error = std::move(on_error)] {
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception& error) {
        on_error(error.what());
      }
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void NetworkThread::stop() noexcept {
  work_.reset();
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe
