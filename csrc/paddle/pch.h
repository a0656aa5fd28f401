// Precompiled header of the Paddle adapter.
#pragma once

#include "dispatch/call.h"
