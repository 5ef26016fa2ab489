#include "sim/sweep/uncertainty.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/common/error.h"
#include "sim/fork_pool.h"
#include "sim/results/metrics.h"
#include "sim/sweep/points.h"

namespace marrow::sweep {

namespace {
constexpr double kLow = 0.05, kHigh = 0.95;
}

std::vector<Drawn> draw_intervals(const config::ParameterSet& parameters, std::size_t samples,
                                  std::uint64_t seed) {
  Study study;
  study.mode = Mode::kLatinHypercube;
  study.points = samples;
  study.seed = seed;
  Axis share;
  share.to = 1;
  std::vector<const config::Parameter*> open;
  for (const config::Parameter& parameter : parameters.all())
    if (parameter.interval) open.push_back(&parameter);
  study.axes.assign(open.size(), share);
  const boost::math::normal normal;
  const double edge = boost::math::quantile(normal, kHigh);
  std::vector<Drawn> all;
  for (const Point& point : points_of(study)) {
    Drawn drawn;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const config::Parameter& parameter = *open[i];
      const double sigmas = boost::math::quantile(normal, *point[i].number) / edge;
      const double side = sigmas < 0 ? parameter.value - parameter.interval->first
                                     : parameter.interval->second - parameter.value;
      double value = std::clamp(parameter.value + sigmas * side, parameter.declaration->min,
                                parameter.declaration->max);
      const std::string_view unit = config::unit_of(parameter.key);
      if (unit == "count" || unit == "bytes") value = std::round(value);
      drawn.emplace_back(parameter.key, value);
    }
    all.push_back(std::move(drawn));
  }
  return all;
}

void apply(config::ParameterSet& parameters, const Drawn& drawn) {
  for (const auto& [key, value] : drawn)
    if (parameters.has(key)) parameters.set(fmt::format("{}={}", key, value));
}

results::Intervals intervals_of(
    std::size_t samples, std::size_t jobs,
    const std::function<std::map<std::string, double>(std::size_t sample)>& work,
    const std::function<void(std::size_t fresh)>& on_done) {
  using Json = nlohmann::json;
  std::vector<std::map<std::string, double>> results(samples);
  sim::ForkPool pool(jobs);
  std::size_t next = 0, done = 0;
  while (done < samples) {
    for (; !pool.full() && next < samples; ++next)
      pool.start(next, [&] {
        try {
          return Json(work(next)).dump(-1, ' ', false, Json::error_handler_t::replace);
        } catch (const std::exception& error) {
          return Json(std::string(error.what()))
              .dump(-1, ' ', false, Json::error_handler_t::replace);
        }
      });
    for (const auto& ended : pool.wait()) {
      const Json said = Json::parse(ended.said, nullptr, false);
      if (!said.is_object() && !said.is_null())
        throw InputError("--intervals",
                         "a sample of the parameters' intervals failed: " +
                             (said.is_string() ? said.get<std::string>() : ended.fault),
                         "narrow the interval that it is about, or leave --intervals out");
      if (said.is_object()) results[ended.job] = said.get<std::map<std::string, double>>();
      ++done;
      if (on_done) on_done(1);
    }
  }
  std::map<std::string, std::vector<double>> values;
  for (const auto& result : results)
    for (const auto& [name, value] : result) values[name].push_back(value);
  results::Intervals all;
  for (const auto& [name, list] : values)
    all[name] = {results::quantile(list, kLow), results::quantile(list, kHigh)};
  return all;
}

}  // namespace marrow::sweep
