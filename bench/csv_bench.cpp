// Reads a CSV file of real numbers, with Troupe, and prints how long that took.
//   bench_csv FILE COLUMN...
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "troupe/data/formats/csv.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: bench_csv FILE COLUMN...\n";
    return 2;
  }
  std::vector<troupe::CsvColumn> columns;
  for (int i = 2; i < argc; ++i) columns.push_back(troupe::csv_real(argv[i]));
  const auto start = std::chrono::steady_clock::now();
  const troupe::CsvTable table = troupe::read_csv(argv[1], {columns});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::cout << table.rows << ' ' << taken.count() << '\n';
}
