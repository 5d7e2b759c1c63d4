// Windows of up to three axes.
enum { AXES = 3, TAPS = 8 };
#include "window.cuh"

WINDOW(window_max, OF_MAX)
WINDOW(window_average, OF_AVERAGE)
WINDOW(window_max_gradient, OF_MAX_GRADIENT)
WINDOW(window_average_gradient, OF_AVERAGE_GRADIENT)
WINDOW(window_response, OF_NORMALISE)
WINDOW(window_response_gradient, OF_NORMALISE_GRADIENT)
