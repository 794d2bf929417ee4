// Checks the shape of the code: no class with private members has more than 25 functions or 20 data
// members, where a class and its Impl count once, and no function is longer than 60 lines.
//
//   code_shape ROOT FOLDER...    prints what is over a limit; exit code 1 if anything is
//   code_shape --list ROOT ...   prints every class with its counts
//
// It reads tokens, not C++: enough for sources that clang-format has laid out and that compile.
// Functions that are defaulted or deleted have no body to hold in the head, and do not count; types
// and friends declared in a class do not either, but a nested class counts on its own. A table of
// data is a function whose comment above it says "Data table:".
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kMaxFunctions = 25;
constexpr int kMaxMembers = 20;
constexpr int kMaxLines = 60;

struct Token {
  std::string text;
  int line = 1;
};

struct Source {
  std::string path;
  std::vector<Token> tokens;
  std::vector<int> data_tables;  // lines of comments that announce one
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Skips a literal that starts at `at`; returns the place after it.
std::size_t after_literal(const std::string& code, std::size_t at) {
  if (code[at] == 'R' && code.compare(at, 2, "R\"") == 0) {
    const auto open = code.find('(', at);
    const std::string close = ")" + code.substr(at + 2, open - at - 2) + "\"";
    return code.find(close, open) + close.size();
  }
  const char quote = code[at];
  for (++at; code[at] != quote; ++at) {
    if (code[at] == '\\') ++at;
  }
  return at + 1;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) {
    std::ifstream file(path);
    code_.assign(std::istreambuf_iterator<char>(file), {});
    source_.path = path.string();
  }

  Source read() {
    while (at_ < code_.size()) step();
    return std::move(source_);
  }

 private:
  void step() {
    const char c = code_[at_];
    if (c == '#') return skip_directive();
    if (code_.compare(at_, 2, "//") == 0) return skip_comment();
    const bool raw = code_.compare(at_, 2, "R\"") == 0;
    const bool separator = c == '\'' && at_ > 0 && is_word(code_[at_ - 1]);
    if (raw || c == '"' || (c == '\'' && !separator)) {
      source_.tokens.push_back({"\"", line_});
      return advance_to(after_literal(code_, at_));
    }
    if (is_word(c)) {
      auto end = at_;
      while (end < code_.size() && (is_word(code_[end]) || code_[end] == '\'')) ++end;
      source_.tokens.push_back({code_.substr(at_, end - at_), line_});
      return advance_to(end);
    }
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      const bool scope = code_.compare(at_, 2, "::") == 0;
      source_.tokens.push_back({scope ? "::" : std::string(1, c), line_});
      return advance_to(at_ + (scope ? 2 : 1));
    }
    advance_to(at_ + 1);
  }

  void skip_comment() {
    const auto end = std::min(code_.find('\n', at_), code_.size());
    if (code_.substr(at_, end - at_).find("Data table:") != std::string::npos) {
      source_.data_tables.push_back(line_);
    }
    advance_to(end);
  }

  void skip_directive() {
    auto end = code_.find('\n', at_);
    while (end != std::string::npos && code_[end - 1] == '\\') end = code_.find('\n', end + 1);
    advance_to(std::min(end, code_.size()));
  }

  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(code_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         code_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::string code_;
  std::size_t at_ = 0;
  int line_ = 1;
  Source source_;
};

struct ClassCount {
  std::string place;
  int functions = 0;
  int members = 0;
  bool has_private = false;
};

struct Report {
  std::map<std::string, ClassCount> classes;  // by name; an Impl adds to its class
  std::vector<std::string> long_functions;
};

/// One statement at the level of a namespace or class: its tokens, without the bodies in braces.
struct Statement {
  std::vector<Token> words;
  bool has(const std::string& text) const {
    return std::any_of(words.begin(), words.end(), [&](const Token& t) { return t.text == text; });
  }
  /// Where a parameter list opens: a bracket of depth 0 outside template arguments, before any "=".
  std::size_t parameters() const {
    int angles = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& t = words[i].text;
      if (t == "operator") return i;
      if (t == "<") ++angles;
      if (t == ">" && (i == 0 || words[i - 1].text != "-")) --angles;
      if (t == "=" && angles == 0) break;
      const bool attribute =
          i > 0 && (words[i - 1].text == "alignas" || words[i - 1].text == "decltype" ||
                    words[i - 1].text == "noexcept");
      if (t == "(" && angles == 0 && !attribute) return i;
    }
    return words.size();
  }
};

class Walker {
 public:
  Walker(const Source& source, Report& report)
      : tokens_(source.tokens), source_(source), report_(report) {}

  void walk() {
    while (at_ < tokens_.size()) scope("");
  }

 private:
  /// Statements up to the brace that closes this scope; `owner` is the class it belongs to.
  void scope(const std::string& owner) {
    Statement now;
    while (at_ < tokens_.size()) {
      const Token& token = tokens_[at_];
      if (token.text == "}") {
        ++at_;
        return;
      }
      if (token.text == "{") {
        brace(owner, now);
      } else if (token.text == ";") {
        ++at_;
        if (!owner.empty()) count(owner, now);
        now = {};
      } else if (token.text == ":" && is_access(now)) {
        if (now.words[0].text == "private") report_.classes[owner].has_private = true;
        ++at_;
        now = {};
      } else {
        now.words.push_back(token);
        ++at_;
      }
    }
  }

  static bool is_access(const Statement& now) {
    return now.words.size() == 1 &&
           (now.words[0].text == "public" || now.words[0].text == "private" ||
            now.words[0].text == "protected");
  }

  void brace(const std::string& owner, Statement& now) {
    const int start = now.words.empty() ? tokens_[at_].line : now.words.front().line;
    const auto parameters = now.parameters();
    if (now.has("namespace") || now.has("extern")) {
      ++at_;
      scope("");
      now = {};
    } else if (parameters == now.words.size() && is_type(now)) {
      ++at_;
      const std::string name = type_name(source_.path, now, owner);
      if (!name.empty()) {
        ClassCount& entry = report_.classes[name];
        if (entry.place.empty()) entry.place = source_.path + ":" + std::to_string(start);
        if (now.has("class")) entry.has_private = true;
      }
      now.has("enum") ? skip_rest() : scope(name);
      now = {};  // up to the ";" nothing of interest follows
    } else if (parameters < now.words.size() && !is_initialiser(now)) {
      ++at_;
      skip_rest();
      const int lines = tokens_[at_ - 1].line - start + 1;
      if (lines > kMaxLines && !is_data_table(start)) {
        report_.long_functions.push_back(source_.path + ":" + std::to_string(start) + ": " +
                                         std::to_string(lines) + " lines");
      }
      if (!owner.empty()) count(owner, now);
      now = {};
    } else {  // a value in braces
      ++at_;
      skip_rest();
    }
  }

  /// A member that a constructor initialises in braces: "... : a_{1}, b_(2) {".
  bool is_initialiser(const Statement& now) const {
    const auto colon = std::find_if(now.words.begin(), now.words.end(),
                                    [](const Token& t) { return t.text == ":"; });
    if (colon == now.words.end()) return false;
    const std::string& last = now.words.back().text;
    return is_word(last[0]) && last != "const" && last != "noexcept" && last != "override" &&
           last != "final";
  }

  static bool is_type(const Statement& now) {
    return now.has("class") || now.has("struct") || now.has("enum") || now.has("union");
  }

  /// "Chief" for Chief, Chief::Impl and an Impl inside Chief; a nested class by both names.
  static std::string type_name(const std::string& path, const Statement& now,
                               const std::string& owner) {
    std::string name;
    bool found = false;
    for (std::size_t i = 0; i < now.words.size(); ++i) {
      const std::string& t = now.words[i].text;
      if (t == "class" || t == "struct" || t == "union" || t == "enum") {
        found = true;
        name.clear();
      } else if (found && (t == ":" || t == "final")) {
        break;
      } else if (found && (is_word(t[0]) || t == "::")) {
        name += t;
      }
    }
    if (now.has("enum")) return "";
    if (name.empty()) return "";
    const auto impl = name.rfind("::Impl");
    if (impl != std::string::npos) return name.substr(0, impl);
    if (name == "Impl" && !owner.empty()) return owner;
    if (!owner.empty()) return owner + "::" + name;
    // Two source files may each have a Reader of their own.
    return path.size() > 4 && path.substr(path.size() - 4) == ".cpp" ? path + ": " + name : name;
  }

  bool is_data_table(int line) const {
    return std::any_of(source_.data_tables.begin(), source_.data_tables.end(),
                       [&](int table) { return table < line && line - table <= 6; });
  }

  void skip_rest() {
    for (int depth = 1; depth > 0 && at_ < tokens_.size(); ++at_) {
      if (tokens_[at_].text == "{") ++depth;
      if (tokens_[at_].text == "}") --depth;
    }
  }

  void count(const std::string& owner, const Statement& now) {
    if (now.words.empty() || now.has("using") || now.has("friend") || now.has("static_assert") ||
        now.has("typedef")) {
      return;
    }
    const bool function = now.parameters() < now.words.size();
    if (!function && is_type(now) && now.words.size() <= 2) return;  // a forward declaration
    ClassCount& entry = report_.classes[owner];
    if (function) {
      if (now.words.back().text != "default" && now.words.back().text != "delete")
        ++entry.functions;
    } else if (!now.has("constexpr")) {
      ++entry.members;
    }
  }

  const std::vector<Token>& tokens_;
  const Source& source_;
  Report& report_;
  std::size_t at_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool list = !arguments.empty() && arguments.front() == "--list";
  if (list) arguments.erase(arguments.begin());
  if (arguments.size() < 2) {
    std::cerr << "usage: code_shape [--list] ROOT FOLDER...\n";
    return 2;
  }
  Report report;
  int files = 0;
  std::filesystem::current_path(arguments.front());
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      ++files;
      const Source source = Reader(entry.path()).read();
      Walker(source, report).walk();
    }
  }
  int over = 0;
  for (const auto& [name, entry] : report.classes) {
    const bool breaks =
        entry.has_private && (entry.functions > kMaxFunctions || entry.members > kMaxMembers);
    if (breaks) ++over;
    if (!breaks && !list) continue;
    std::cout << entry.place << ": " << name << " has " << entry.functions << " functions and "
              << entry.members << " data members" << (breaks ? ", more than 25 or 20\n" : "\n");
  }
  for (const auto& function : report.long_functions) std::cout << function << ", more than 60\n";
  over += static_cast<int>(report.long_functions.size());
  std::cout << files << " files, " << report.classes.size() << " classes, " << over
            << " over a limit\n";
  return over == 0 && files > 0 ? 0 : 1;
}
