// MemoryFileSystem: files in memory that know what a loss of power may leave of them.
//
// Content and names live twice: as processes see them, and as the disk is sure to have them. A sync
// makes a file's content, or the names of one directory, sure. After a crash any subset of the
// changes of names that were not sure may have happened, and content that was not sure is there,
// gone, cut in half or zeros. Calls can be counted, recorded, failed and dropped.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/train/memory_node.h"
#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/text.h"

namespace troupe::testing {

class MemoryFileSystem : public FileSystem {
 public:
  enum class Drop { nothing, file_sync, directory_sync };

  Drop drop = Drop::nothing;
  std::vector<std::string> calls;      // "fsync model.ckpt-1.tmp-7/manifest.json"
  std::function<void()> after_change;  // after each change of content, names or their surety
  int fail_at = 0;                     // the number of the call that fails, from 1; 0: none
  int error_number = EIO;
  int call_count = 0;

  MemoryFileSystem() : nodes_(1) { nodes_[0].is_directory = true; }

  /// Every state that a crash at this moment may leave, for `visit`.
  void crash_states(const std::function<void(std::unique_ptr<MemoryFileSystem>)>& visit) const {
    std::vector<bool> reachable(nodes_.size(), false);
    mark_reachable(nodes_, 0, reachable);
    std::size_t pending = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (reachable[i]) pending += nodes_[i].pending.size();
    }
    // Beyond kMaxSubsetChanges (only where directory syncs are dropped) the prefixes must do.
    const bool all = pending <= kMaxSubsetChanges;
    for (std::size_t n = 0; n < (all ? std::size_t{1} << pending : pending + 1); ++n) {
      std::vector<bool> chosen(pending);
      for (std::size_t i = 0; i < pending; ++i) chosen[i] = all ? (n >> i & 1) != 0 : i < n;
      for (const Unsynced unsynced :
           {Unsynced::kept, Unsynced::gone, Unsynced::half, Unsynced::zeros}) {
        visit(crashed(chosen, reachable, unsynced));
      }
    }
  }
  /// Names and content below the root, for telling states apart.
  [[nodiscard]] std::string fingerprint() const { return fingerprint_of(nodes_, 0); }

  [[nodiscard]] std::string shown(const std::string& path) const override { return "/m/" + path; }
  void create_root() override {}
  void create_directory(const std::string& path) override {
    begin("mkdir", path);
    link(path, add_node(true));
    changed();
  }
  std::unique_ptr<FileWriter> create_file(const std::string& path) override {
    begin("create", path);
    const std::size_t node = add_node(false);
    link(path, node);
    changed();
    return std::make_unique<Writer>(*this, node, path);
  }
  void rename(const std::string& from, const std::string& to) override {
    begin("rename", from + " " + to);
    const auto node = find(from);
    if (!node || (find(to) && nodes_[*node].is_directory)) fail("rename", from, ENOTEMPTY);
    change_names(parent_of(from), {{name_of(from), std::nullopt}, {name_of(to), *node}});
    changed();
  }
  void sync_directory(const std::string& path) override {
    begin("fsync-dir", path);
    MemoryNode& node = nodes_[find(path).value()];
    if (drop == Drop::directory_sync) return;
    node.pending.clear();
    node.sure_names = node.names;
    changed();
  }
  void sync_file(const std::string& path) override { sync_node(find(path).value(), path); }
  void remove_file(const std::string& path) override {
    begin("unlink", path);
    const auto node = find(path);
    if (!node || nodes_[*node].is_directory) fail("remove", path, ENOENT);
    change_names(parent_of(path), {{name_of(path), std::nullopt}});
    changed();
  }
  void remove_directory(const std::string& path) override {
    begin("rmdir", path);
    const auto node = find(path);
    if (!node || !nodes_[*node].names.empty()) fail("remove", path, ENOTEMPTY);
    change_names(parent_of(path), {{name_of(path), std::nullopt}});
    changed();
  }
  std::vector<DirectoryEntry> list(const std::string& path) override {
    begin("list", path);
    const auto node = find(path);
    if (!node) fail("list", path, ENOENT);
    std::vector<DirectoryEntry> entries;
    for (const auto& [name, child] : nodes_[*node].names) entries.push_back({name, type(child)});
    return entries;
  }
  std::optional<FileStatus> status(const std::string& path) override {
    begin("stat", path);
    const auto node = find(path);
    if (!node) return std::nullopt;
    return FileStatus{type(*node), nodes_[*node].content.size()};
  }
  std::vector<std::byte> read_file(const std::string& path, std::uint64_t max_bytes) override {
    begin("read", path);
    const auto node = find(path);
    if (!node) fail("read", path, ENOENT);
    const std::string& content = nodes_[*node].content;
    if (content.size() > max_bytes) fail("read", path, EFBIG);
    std::vector<std::byte> bytes(content.size());
    if (!content.empty()) std::memcpy(bytes.data(), content.data(), content.size());
    return bytes;
  }
  std::vector<std::byte> read_start(const std::string& path, std::uint64_t count) override {
    std::vector<std::byte> bytes = read_file(path, UINT64_MAX);
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes.size())));
    return bytes;
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    begin("lock", path);
    if (!locked_.insert(path).second) return nullptr;
    if (!find(path)) link(path, add_node(false));
    return std::make_unique<Lock>(*this, find(path).value(), path);
  }

 private:
  static constexpr std::size_t kMaxSubsetChanges = 9;
  class Writer final : public FileWriter {
   public:
    Writer(MemoryFileSystem& files, std::size_t node, std::string path)
        : files_(files), node_(node), path_(std::move(path)) {}
    void write(Span<const std::byte> bytes) override {
      std::string& content = files_.nodes_[node_].content;
      const auto* const characters = reinterpret_cast<const char*>(bytes.data());
      content.append(characters, bytes.size() / 2);  // a full disk takes a part
      files_.begin("write", path_);
      content.append(characters + bytes.size() / 2, bytes.size() - bytes.size() / 2);
      files_.changed();
    }
    void sync() override { files_.sync_node(node_, path_); }
    void close() override { files_.begin("close", path_); }

   private:
    MemoryFileSystem& files_;
    std::size_t node_;
    std::string path_;
  };

  class Lock final : public FileLock {
   public:
    Lock(MemoryFileSystem& files, std::size_t node, std::string path)
        : files_(files), node_(node), path_(std::move(path)) {}
    ~Lock() override { files_.locked_.erase(path_); }
    [[nodiscard]] std::string read() const override { return files_.nodes_[node_].content; }
    void write(const std::string& record) override {
      files_.begin("write", path_);
      files_.nodes_[node_].content = record;
      files_.changed();
    }

   private:
    MemoryFileSystem& files_;
    std::size_t node_;
    std::string path_;
  };

  void begin(const std::string& call, const std::string& path) {
    calls.push_back(text(call, " ", path));
    if (++call_count == fail_at) fail(call, path, error_number);
  }
  [[noreturn]] void fail(const std::string& call, const std::string& path, int error) const {
    throw_file_error(call, shown(path), error);
  }
  void sync_node(std::size_t node, const std::string& path) {
    begin("fsync", path);
    if (drop == Drop::file_sync) return;
    nodes_[node].sure_content = nodes_[node].content;
    changed();
  }
  void changed() const {
    if (after_change) after_change();
  }
  [[nodiscard]] FileType type(std::size_t node) const {
    return nodes_[node].is_directory ? FileType::directory : FileType::file;
  }
  [[nodiscard]] std::optional<std::size_t> find(const std::string& path) const {
    std::size_t at = 0;
    for (const std::string& name : split_path(path)) {
      const auto child = nodes_[at].names.find(name);
      if (child == nodes_[at].names.end()) return std::nullopt;
      at = child->second;
    }
    return at;
  }
  [[nodiscard]] std::size_t parent_of(const std::string& path) const {
    const std::size_t slash = path.rfind('/');
    const auto parent = find(slash == std::string::npos ? "" : path.substr(0, slash));
    if (!parent) fail("find", path, ENOENT);
    return *parent;
  }
  static std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);  // all of it where there is none
  }
  std::size_t add_node(bool is_directory) {
    nodes_.emplace_back();
    nodes_.back().is_directory = is_directory;
    return nodes_.size() - 1;
  }
  void link(const std::string& path, std::size_t node) {
    if (find(path)) fail("create", path, EEXIST);
    change_names(parent_of(path), {{name_of(path), node}});
  }
  void change_names(std::size_t directory, const NameChanges& changes) {
    apply(changes, nodes_[directory].names);
    nodes_[directory].pending.push_back(changes);
  }
  [[nodiscard]] std::unique_ptr<MemoryFileSystem> crashed(const std::vector<bool>& chosen,
                                                          const std::vector<bool>& reachable,
                                                          Unsynced unsynced) const {
    auto state = std::make_unique<MemoryFileSystem>();
    state->nodes_ = nodes_;
    std::size_t change = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      MemoryNode& node = state->nodes_[i];
      node.content = left_of(node, unsynced);
      node.sure_content = node.content;
      for (const NameChanges& changes : node.pending) {
        if (reachable[i] && chosen[change++]) apply(changes, node.sure_names);
      }
      node.pending.clear();
      node.names = node.sure_names;
    }
    return state;
  }

  MemoryNodes nodes_;
  std::set<std::string> locked_;
};

}  // namespace troupe::testing
