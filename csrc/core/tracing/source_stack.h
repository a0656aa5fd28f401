// Stacks of the program's source lines as small numbers. The core knows no Python: csrc/python captures the stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

struct SourceFrame {
  std::string file;
  std::string function;
  int line;
};

// A stack that was interned. Equal stacks have equal numbers; 0 is the empty stack. Never freed: a program has few.
using StackId = uint32_t;

// The stack of this thread, or 0 if nobody captures stacks. May take the GIL: hold no lock.
StackId current_stack();
void set_stack_function(StackId (*function)());

uint32_t intern_frame(SourceFrame frame);
// Frames by their numbers, innermost first.
StackId intern_stack(const std::vector<uint32_t>& frames);
std::vector<SourceFrame> stack_frames(StackId stack);

// Files under these folders belong to libraries, not to the program. `working_folder` is cut off shown paths.
void set_library_folders(std::vector<std::string> folders, std::string working_folder);
// The innermost line of the program, such as "train.py:12"; "" for the empty stack. Without one: the innermost line.
std::string program_line(StackId stack);

}  // namespace hp
