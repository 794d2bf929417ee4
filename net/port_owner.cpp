#include "net/port_owner.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "core/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListenState = "0A";  // TCP_LISTEN in /proc/net/tcp

// Adds the inodes of the sockets that listen on `port` according to one table.
void add_listening_inodes(const char* table, std::uint16_t port, std::vector<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    const auto colon = local.rfind(':');
    if (!fields || state != kListenState || colon == std::string::npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) == port) inodes.push_back(inode);
  }
}

bool holds_one_of(const fs::path& process, const std::vector<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end;
       fd.increment(error)) {
    const std::string target = fs::read_symlink(fd->path(), error).string();
    if (error) {
      error.clear();  // closed meanwhile
      continue;
    }
    for (const auto& inode : inodes) {
      if (target == "socket:[" + inode + "]") return true;
    }
  }
  return false;
}

}  // namespace

std::string describe_port_owner(std::uint16_t port) {
  std::vector<std::string> inodes;
  add_listening_inodes("/proc/net/tcp", port, inodes);
  add_listening_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return "";
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    const bool is_process =
        std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_process || !holds_one_of(entry->path(), inodes)) continue;
    std::string program;
    std::getline(std::ifstream(entry->path() / "comm"), program);
    return text("process ", pid, " (", program, ")");
  }
  return "";
}

}  // namespace troupe
