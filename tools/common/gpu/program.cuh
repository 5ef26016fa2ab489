// What every measuring program does around its measurements.
#pragma once

#include <functional>

#include "tools/common/gpu/device.cuh"
#include "tools/common/output.h"

namespace marrow::tools {

/// The number of GPUs. Throws InputError where there is none to measure on, or not this one.
int count_gpus(int device);

/// Date, GPU, driver, PCIe and processor, under the names that a measurement file's header has;
/// nothing that names the machine. Of the current device.
void add_machine(Object& header, int device, int gpus);

/// Keeps all SMs of the current device busy until their clock has come up.
void warm_up();

/// SM cycles per ns of globaltimer over `span_ns`, on the current device.
double clock_ghz(std::uint64_t span_ns);
/// More than this apart (relative) and the SM clock has moved.
constexpr double kClockTolerance = 0.005;

/// Runs a program's body and turns what it throws into a message and an exit code: 2 for bad usage,
/// a machine without what is needed, or a GPU that the program was not built for; 3 for a
/// measurement that failed.
int guarded(const char* program, const std::function<void()>& body);

}  // namespace marrow::tools
