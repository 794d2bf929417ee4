// Writes the manual pages and the shells' completions into a folder, when Troupe is built.
//
//   troupe_documents DIR
#include <fstream>
#include <string>

#include "cli/run_main.h"
#include "core/error.h"
#include "launcher/completions.h"
#include "launcher/manual_pages.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    if (argc != 2)
      throw troupe::ConfigError("troupe_documents was not told where to write.",
                                "write `troupe_documents DIR`.");
    const auto write = [&](const char* name, const std::string& content) {
      std::ofstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
      file << content;
      file.close();
      if (!file)
        throw troupe::EnvironmentError(std::string(name) + " cannot be written.",
                                       "check the folder and the disk.");
    };
    write("troupe.1", troupe::tool_manual());
    write("troupe-flags.7", troupe::flags_manual());
    write("troupe.bash", troupe::bash_completion());
    write("_troupe", troupe::zsh_completion());
  });
}
