// Records that a plug-in makes itself (HpTracing), joined with the launches that caused them.
//
// The plug-in is not trusted. A record with impossible times gets the host's times, a record of an unknown launch has
// no operator, and each kind of mistake is reported once per process.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tracing/tracer.h"

namespace hp {

// Starts the trace of every mounted plug-in that has HpTracing.
void start_plugin_traces();
// The same for one plug-in. Does nothing if its trace runs.
void start_plugin_trace(Runtime& runtime);
// Waits for the launches of these plug-ins, stops their traces and appends the joined records.
void stop_plugin_traces(std::vector<TraceRecord>* records);

// The records so far; the traces continue. A launch whose record does not come is reported with the host's times.
void take_plugin_records(std::vector<TraceRecord>* records);

// Whether the device's plug-in makes the records of the running trace.
bool traces_itself(const Device& device);

// A launch of such a device: returns its number, for host->correlation().
uint64_t begin_traced_launch(const TraceRecord& launch, Stream& stream);
void end_traced_launch(uint64_t number, int64_t end_ns);
void discard_traced_launch(uint64_t number);

}  // namespace hp
