// Writes a trace while the program runs, as JSON trace events that Perfetto and Chrome open.
//
// A thread appends what happened every tenth of a second. Every write ends with a complete event, so the file can be
// read after the process was killed or the disk is full: only the closing bracket is missing, which both viewers
// accept.
#pragma once

#include <string>

namespace hp {

// One file at a time. `about` is a JSON object, written first. Throws Error if the file cannot be created.
void start_trace_file(const std::string& path, const std::string& about);
// Waits for the traced work and closes the file; `totals` is a JSON object, written last. Returns why the file is
// incomplete, or "". Without a file, does nothing.
std::string stop_trace_file(const std::string& totals);

}  // namespace hp
