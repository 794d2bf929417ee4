// SavingListener: told of every checkpoint of a run. On the chief only, since it alone saves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path;   // the directory that holds it, complete and durable
  bool last = false;  // training ends with it
};

class SavingListener {
 public:
  enum class Answer { go_on, stop };

  virtual ~SavingListener() = default;
  /// Once, before the first save.
  virtual void begin() {}
  virtual void before_save(std::int64_t /*step*/) {}
  /// Called for the state that training starts from as well, saved now or found. `stop` ends
  /// training on all workers after this step; it means nothing for the first save and the last.
  virtual Answer after_save(const SavedCheckpoint& /*saved*/) { return Answer::go_on; }
  /// Once, after the last save of a run that ended cleanly.
  virtual void end(const SavedCheckpoint& /*saved*/) {}
};

/// Called in list order.
using SavingListeners = std::vector<std::shared_ptr<SavingListener>>;

}  // namespace troupe
