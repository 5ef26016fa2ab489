// Bounded least squares with what the answer is worth: intervals, correlations, and which
// parameters the data do not tell. Knows neither files nor simulations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace marrow::calibrate {

/// A parameter that is fitted.
struct Knob {
  std::string key;
  double value = 0;          ///< to start from, within low to high
  double low = 0, high = 0;  ///< the range that is searched
  double known_width = 0;    ///< data that leave more than this open tell nothing; above 0
};

/// A measured value that the parameters predict.
struct Datum {
  double measured = 0;
  double uncertainty = 0;  ///< standard error, above 0
  bool held_out = false;   ///< not fitted to
};

/// Predictions of all data at each point: one value a knob in, one value a datum out. The points of
/// one call may be worked on at once.
using Evaluate =
    std::function<std::vector<std::vector<double>>(const std::vector<std::vector<double>>& points)>;

struct FitOptions {
  std::size_t starts = 4;  ///< the knobs' own values first, the others by a Latin hypercube
  std::uint64_t seed = 1;
};

enum class Verdict {
  kFitted,
  kUnmoved,       ///< no datum moves with it
  kUndetermined,  ///< the data leave more open than is known without them
};

struct Estimate {
  std::string key;
  Verdict verdict = Verdict::kFitted;
  double before = 0, value = 0;  ///< value: `before` where the data do not tell it
  /// The true value lies here with 90 %: what the data's uncertainty leaves open, and how far
  /// single data disagree about it. Only where it is kFitted.
  double low = 0, high = 0;
  bool at_bound = false;
  std::vector<std::size_t> told_by;  ///< the data that move with it most, the weightiest first
};

/// Two parameters that trade against each other: rho between -1 and 1.
struct Correlation {
  std::string a, b;
  double rho = 0;
};

struct Fit {
  std::vector<Estimate> estimates;        ///< in the knobs' order
  std::vector<Correlation> correlations;  ///< of |rho| of 0.9 and more, the strongest first
  std::vector<double> before, after;      ///< predictions, in the data's order
  std::vector<double> costs;              ///< of each start: half the sum of weighted squares
  double scatter = 0;  ///< root mean square of the fitted data's errors over their uncertainties
};

/// Levenberg-Marquardt (Ceres) from several starts, with a loss that grows linearly for data that
/// no values explain, and numeric derivatives. What the data do not tell is taken out, the least
/// determined first, and the rest is fitted again. The same input gives the same result, whatever
/// `evaluate` does at once. Throws InputError if there are fewer fitted data than one.
Fit fit(const std::vector<Knob>& knobs, const std::vector<Datum>& data, const Evaluate& evaluate,
        const FitOptions& options);

}  // namespace marrow::calibrate
