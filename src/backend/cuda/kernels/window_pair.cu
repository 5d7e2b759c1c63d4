// Windows along one axis or two, computed in binary32, of functions that look at windows of windows: an axis less leaves room
// for more threads.
enum { AXES = 2, TAPS = 8 };
#include "window.cuh"

#define PAIR(NAME, FUNCTION)                                                                             \
    extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, 1) pair_window_##NAME(const Window p) { \
        window<f32, FUNCTION>(p);                                                                        \
    }
PAIR(max_gradient, OF_MAX_GRADIENT)
PAIR(response, OF_NORMALISE)
PAIR(response_gradient, OF_NORMALISE_GRADIENT)
#undef PAIR
