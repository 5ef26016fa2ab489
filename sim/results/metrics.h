// What is read off a simulation in one number: how long a lane was busy, when it knew that its
// message had arrived, how many it got through.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "models/common/observer.h"
#include "models/common/time.h"

namespace marrow::results {

/// Of processing element 0. The first tenth of each lane's messages is left out: its caches are
/// cold.
enum class Metric : std::uint8_t {
  kIssue,                 ///< a message's begin to its end in the lane that issues it; ns
  kPutCompletion,         ///< a message's begin to the end of the lane's next quiet; ns
  kDoorbellToCompletion,  ///< a message's end to the end of the lane's next quiet; ns
  kRoundTrip,             ///< a message's begin to the end of the lane's next wait; ns
  kOneWay,                ///< half of that; ns
  kRate,                  ///< messages completed a second, over the middle 80 % of the run; Mmsg/s
  kGoodput                ///< their payload; GB/s
};
constexpr std::array<std::string_view, 7> kMetricNames = {
    "issue", "put_completion", "doorbell_to_completion", "round_trip", "one_way",
    "rate",  "goodput"};
constexpr std::string_view name(Metric metric) {
  return kMetricNames[static_cast<std::size_t>(metric)];
}
constexpr bool is_time(Metric metric) { return metric < Metric::kRate; }

/// What one simulation showed.
struct Observed {
  std::vector<Operation> operations;        ///< of processing element 0, each lane's in its order
  std::vector<std::pair<Ps, Ps>> messages;  ///< its messages' begin and completion
  double bytes = 0;                         ///< of a message, the mean
};

/// Keeps what the metrics need of a run.
class Keeper : public Observer {
 public:
  explicit Keeper(Observed& observed) : observed_(observed) {}
  void on_journey(const Journey& journey) override;
  void on_operation(const Operation& operation) override;

 private:
  Observed& observed_;
  std::uint64_t issued_ = 0;
};

/// One value for each message, or (rate, goodput) for the whole; empty if it shows none.
std::vector<double> samples(Metric metric, const Observed& observed);

/// The element at floor(p n) of the sorted sample, at most the last; 0 of an empty one.
double quantile(std::vector<double> sample, double p);

}  // namespace marrow::results
