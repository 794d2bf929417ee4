#include "tests/simulation/descriptors.h"

#include <algorithm>
#include <cerrno>

namespace troupe::simulation {
namespace {

Descriptors* g_descriptors = nullptr;

// Reported whether or not they were asked for.
constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;

Time time_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

}  // namespace

void File::changed() {
  for (Thread* thread : pollers) World::the().wake(*thread);
  for (Epoll* epoll : watchers) epoll->look_at(*this);
}

Descriptors::Descriptors() { g_descriptors = this; }
Descriptors& Descriptors::the() { return *g_descriptors; }

// The lowest free number, as the system gives: one that is used again at once finds who still uses
// the old one.
int Descriptors::place(std::shared_ptr<File> file) {
  int number = kFirstDescriptor;
  for (const auto& [taken, other] : files_) {
    if (taken != number) break;
    ++number;
  }
  ++file->descriptors;
  files_[number] = std::move(file);
  return number;
}

int Descriptors::add(std::shared_ptr<File> file, Process& owner) {
  file->owner = &owner;
  return place(std::move(file));
}

int Descriptors::copy(int descriptor) { return place(files_.at(descriptor)); }

std::shared_ptr<File> Descriptors::find(int descriptor) const {
  if (descriptor < kFirstDescriptor) return nullptr;
  const auto found = files_.find(descriptor);
  return found == files_.end() ? nullptr : found->second;
}

void Descriptors::replace(int descriptor, std::shared_ptr<File> file) {
  std::shared_ptr<File>& place = files_.at(descriptor);
  ++file->descriptors;
  file->owner = place->owner;
  file->may_block = place->may_block;
  // Who watches goes on watching.
  const std::shared_ptr<File> former = std::exchange(place, std::move(file));
  for (Epoll* epoll : std::exchange(former->watchers, {})) epoll->follow(*former, place);
}

bool Descriptors::close(int descriptor) {
  const auto found = files_.find(descriptor);
  if (found == files_.end()) return false;
  const std::shared_ptr<File> file = found->second;
  files_.erase(found);
  if (--file->descriptors > 0) return true;
  file->is_open = false;
  for (Epoll* epoll : std::exchange(file->watchers, {})) epoll->forget(*file);
  file->on_close();
  return true;
}

void Descriptors::close_all_of(Process& process) {
  std::vector<int> mine;
  for (const auto& [number, file] : files_) {
    if (file->owner == &process) mine.push_back(number);
  }
  for (const int number : mine) close(number);
}

void Event::add(std::uint64_t count) {
  count_ += count;
  changed();
}

void Timer::set(int flags, const itimerspec& to) {
  is_over_ = false;
  const std::uint64_t setting = ++setting_;
  const Time value = time_of(to.it_value);
  if (value == 0) return;
  World& world = World::the();
  const bool is_absolute = (flags & TFD_TIMER_ABSTIME) != 0;
  world.at(is_absolute ? value : world.now() + value, [self = shared_from_this(), setting] {
    if (self->setting_ != setting || !self->is_open) return;
    self->is_over_ = true;
    self->changed();
  });
}

void Epoll::on_close() {
  for (auto& [file, interest] : interests_) {
    stop_watching(*file);
  }
  interests_.clear();
  listed_.clear();
}

void Epoll::stop_watching(File& file) {
  auto& all = file.watchers;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
}

int Epoll::control(int what, const std::shared_ptr<File>& file, const epoll_event* event) {
  const auto found = interests_.find(file.get());
  if (what == EPOLL_CTL_ADD) {
    if (found != interests_.end()) return EEXIST;
    file->watchers.push_back(this);
    interests_[file.get()] = {*event, false};
    look_at(*file);
    return 0;
  }
  if (found == interests_.end()) return ENOENT;
  if (what == EPOLL_CTL_DEL) {
    stop_watching(*file);
    forget(*file);
    return 0;
  }
  found->second.wanted = *event;
  look_at(*file);
  return 0;
}

void Epoll::look_at(File& file) {
  const auto found = interests_.find(&file);
  if (found == interests_.end()) return;
  if ((file.ready() & (found->second.wanted.events | kAlways)) != 0) list(file, found->second);
}

void Epoll::list(File& file, Interest& interest) {
  if (!std::exchange(interest.is_listed, true)) listed_.push_back(&file);
  for (Thread* thread : pollers) World::the().wake(*thread);
}

void Epoll::follow(File& former, const std::shared_ptr<File>& file) {
  const epoll_event wanted = interests_.at(&former).wanted;
  forget(former);
  static_cast<void>(control(EPOLL_CTL_ADD, file, &wanted));
}

void Epoll::forget(File& file) {
  interests_.erase(&file);
  listed_.erase(std::remove(listed_.begin(), listed_.end(), &file), listed_.end());
}

int Epoll::collect(epoll_event* into, int most) {
  int count = 0;
  std::vector<File*> left;
  for (File* file : std::exchange(listed_, {})) {
    Interest& interest = interests_.at(file);
    const std::uint32_t ready = file->ready() & (interest.wanted.events | kAlways);
    if (ready == 0 || count == most) {
      if (ready != 0) left.push_back(file);
      interest.is_listed = ready != 0;
      continue;
    }
    into[count] = interest.wanted;
    into[count++].events = ready;
    const bool is_edge = (interest.wanted.events & EPOLLET) != 0;
    interest.is_listed = !is_edge;  // a level is looked at again
    if (!is_edge) left.push_back(file);
  }
  listed_.insert(listed_.end(), left.begin(), left.end());
  return count;
}

}  // namespace troupe::simulation
