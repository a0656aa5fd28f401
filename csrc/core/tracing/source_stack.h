// Stacks of source lines, interned as small numbers. The core is independent of Python: csrc/python captures the
// stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

// Of Python, or of C++ with a library as its file and without a line.
struct SourceFrame {
  std::string file;
  std::string function;
  int line;
};

// An interned stack. Equal stacks have equal numbers; 0 is the empty stack. Never freed, since programs have few.
using StackId = uint32_t;

// The stack of this thread, or 0 if no capture function is set. May take the GIL: call without locks. With `native`,
// the C++ frames that Python called come first.
StackId current_stack(bool native = false);
void set_stack_function(StackId (*function)(bool native));

uint32_t intern_frame(SourceFrame frame);
// Frames by their numbers, innermost first.
StackId intern_stack(const std::vector<uint32_t>& frames);
std::vector<SourceFrame> stack_frames(StackId stack);

// Files under these folders belong to libraries, not to the program. `working_folder` is removed from shown paths.
void set_library_folders(std::vector<std::string> folders, std::string working_folder);
// The innermost line of the program, such as "train.py:12"; "" for the empty stack. Without one: the innermost line.
std::string program_line(StackId stack);

}  // namespace hp
