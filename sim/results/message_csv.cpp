#include "sim/results/message_csv.h"

#include <fmt/format.h>

#include <iterator>

#include "sim/results/csv.h"

namespace marrow::results {
namespace {

/// ",<ns>" with as many decimals as it takes. Integer arithmetic: a double would lose picoseconds
/// of late start times.
void append_ns(fmt::memory_buffer& to, Ps ps) {
  const auto end = std::back_inserter(to);
  const Ps whole = ps / kPsPerNs;
  const Ps rest = ps % kPsPerNs;
  if (rest == 0)
    fmt::format_to(end, ",{}", whole);
  else if (rest % 100 == 0)
    fmt::format_to(end, ",{}.{}", whole, rest / 100);
  else if (rest % 10 == 0)
    fmt::format_to(end, ",{}.{:02}", whole, rest / 10);
  else
    fmt::format_to(end, ",{}.{:03}", whole, rest);
}

}  // namespace

MessageCsv::MessageCsv(std::ostream& out) : out_(out) {
  out_ << "run,warp,sm,queue,index,op,start_ns";
  for (std::string_view stage : kStageNames) out_ << ',' << stage << "_ns";
  out_ << ",completion_ns,polls,rang,put_ns,end_to_end_ns,bytes\n";
}

void MessageCsv::begin_run(std::uint32_t, std::string_view name) { run_ = csv_field(name); }

void MessageCsv::on_journey(const Journey& journey) {
  fmt::memory_buffer line;
  const auto end = std::back_inserter(line);
  fmt::format_to(end, "{},{},{},{},{},{}", run_, journey.warp, journey.sm, journey.queue,
                 journey.index, journey.op);
  append_ns(line, journey.start_ps);
  for (Ps ps : journey.stage_ps) append_ns(line, ps);
  if (journey.waited)
    append_ns(line, journey.waited_ps);
  else
    line.push_back(',');
  fmt::format_to(end, ",{},{}", journey.polls, journey.rang ? 1 : 0);
  append_ns(line, journey.put_ps());
  append_ns(line, journey.end_to_end_ps());
  fmt::format_to(end, ",{}\n", journey.bytes);
  out_.write(line.data(), static_cast<std::streamsize>(line.size()));
}

}  // namespace marrow::results
