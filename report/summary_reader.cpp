#include "troupe/report/summary_reader.h"

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/report/event_file.h"

namespace troupe {
namespace {

void add(const Event& event, ScalarHistory& history) {
  if (event.session_start) history.erase(history.lower_bound(event.step), history.end());
  for (const Scalar& scalar : event.scalars) history[event.step][scalar.tag] = scalar.value;
}

void read_file(const std::string& path, ScalarHistory& history) {
  RecordReader reader(path);
  std::string message;
  while (reader.next(message)) {
    try {
      add(decode_event(message), history);
    } catch (const DataError& error) {
      log_warning("'", path, "': the record at byte ", reader.offset(),
                  " is left out: ", error.cause());
    }
  }
  if (!reader.damage().empty()) {
    log_warning(reader.damage(), "; what is before it was read, the rest is left out");
  }
}

}  // namespace

ScalarHistory read_scalars(const std::string& directory) {
  ScalarHistory history;
  for (const std::string& name : list_event_files(directory)) {
    read_file(directory + "/" + name, history);
  }
  return history;
}

}  // namespace troupe
