// Journeys by hand, for the tests of what is made of them.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/journey.h"

namespace marrow::results {

/// wqe 100 ns, doorbell.register 50, mmio 400, poll 250; the lane waits 700. Put 850, end to end
/// 800.
inline Journey waited_message() {
  Journey j;
  j.warp = 3;
  j.sm = 125;
  j.queue = 1;
  j.index = 7;
  j.op = 9;
  j.start_ps = 1'000'000;
  j.at(Stage::kWqe) = 100'000;
  j.at(Stage::kDoorbellRegister) = 50'000;
  j.at(Stage::kMmio) = 400'000;
  j.at(Stage::kPoll) = 250'000;
  j.waited = true;
  j.waited_ps = 700'000;
  j.polls = 4;
  j.rang = true;
  return j;
}

/// wqe 200 ns, mmio 1000; nobody waits. Put 200, end to end 1200.
inline Journey unwaited_message() {
  Journey j;
  j.warp = 3;
  j.sm = 125;
  j.queue = 1;
  j.index = 8;
  j.op = 10;
  j.start_ps = 2'000'000;
  j.at(Stage::kWqe) = 200'000;
  j.at(Stage::kMmio) = 1'000'000;
  return j;
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

/// The fields of a line without quoted ones.
inline std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> all;
  std::size_t from = 0;
  for (std::size_t to; (to = line.find(',', from)) != std::string::npos; from = to + 1)
    all.push_back(line.substr(from, to - from));
  all.push_back(line.substr(from));
  return all;
}

}  // namespace marrow::results
