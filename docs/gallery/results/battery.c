/*
 * The policy of tessera on battery 8 swing 0.3, exported by spaql 0.2.0.
 * Learned in 2,083 iterations, 49,992 training steps, seed 0.
 * 11 comparisons, of which a decision takes at most 6.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] charge: from 0 to 8
 *   [1] hour: from 0 to 23
 *   [2] price: from 0 to 1
 *
 * The action, of which 12 values occur:
 *   [0] trade: from -1 to 1
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * double battery_act(const double observation[3]);  (declare it where it is called)
 *
 * Its tables take 217 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t battery_number[11] = {
    2, 2, 1, 1, 2, 2, 1, 1, 1, 2, 1
};

static const double battery_threshold[11] = {
    0x1.f91fdbdcfc96ap-2, 0x1.73cca45040074p-3, 0x1.37fffffffffdbp+4, 0x1.9fffffffffff5p+2,
    0x1.733bd09f0fc3ap-1, 0x1.d973ff23fd022p-3, 0x1.2fffffffffffp+3, 0x1.6fffffffffe8cp+3,
    0x1.57fffff970e54p+4, 0x1.3f65383f66426p-1, 0x1.67fffff53ad7bp+4
};

static const int8_t battery_next[11][2] = {
    {1, 2}, {-8, 3}, {4, -2}, {5, 6}, {7, -4}, {-9, -6}, {-10, 8}, {-3, 9}, {-11, 10}, {-12, -5},
    {-7, -1}
};

static const double battery_action[12] = {
    -0x1.facf29011960ep-1, -0x1.e9eb194d541bp-1, -0x1.e4ddf3cbe73dp-1, -0x1.812d0325e67f1p-1,
    -0x1.e01c29128a8p-6, 0x1.cp-6, 0x1.74d4a1678473ep-1, 0x1.bd14c24a87ef8p-1, 0x1.bd46d4fb285p-1,
    0x1.d5ecb24d98ae8p-1, 0x1.d761b68fcde86p-1, 0x1p+0
};

double battery_act(const double observation[3]);

double battery_act(const double observation[3])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = battery_next[at][observation[battery_number[pair]] >= battery_threshold[pair]];
    }
    return battery_action[-1 - at];
}
