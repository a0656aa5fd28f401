// What nearly every file of the adapter includes, compiled once.
#pragma once

#include "call.h"
