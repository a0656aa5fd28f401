// Writes a trace while the program runs, as JSON trace events that Perfetto and Chrome open.
//
// A thread appends the new events every tenth of a second. Every write ends with a complete event, so the file stays
// readable if the process is killed or the disk is full: only the closing bracket is missing, and both viewers accept
// that.
#pragma once

#include <string>

namespace hp {

// One file at a time. `about` is a JSON object, written first; `program` names the process in viewers. Throws Error if
// the file cannot be created.
void start_trace_file(const std::string& path, const std::string& about, const std::string& program);
// Waits for the traced work and closes the file; `totals` is a JSON object, written last. Returns why the file is
// incomplete, or "". Without a file, does nothing.
std::string stop_trace_file(const std::string& totals);

}  // namespace hp
