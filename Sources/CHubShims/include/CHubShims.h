// What Swift can't call by itself: macros, variadic functions, inline functions. Each says why it's here.
#ifndef HUB_SHIMS_H
#define HUB_SHIMS_H

#include <stddef.h>
#include <stdint.h>

#endif
