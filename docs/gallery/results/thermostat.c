/*
 * The policy of tessera on Room, exported by spaql 0.2.0.
 * Learned in 365 iterations, 35,040 training steps, seed 0.
 * 6 comparisons, of which a decision takes at most 4.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] inside: from 10 to 30
 *   [1] outside: from -20 to 25
 *   [2] hour: from 0 to 24
 *
 * The action, of which 4 values occur:
 *   [0] heating: from 0 to 1
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * float thermostat_act(const double observation[3]);  (declare it where it is called)
 *
 * Its tables take 82 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t thermostat_number[6] = {
    0, 0, 2, 2, 2, 0
};

static const double thermostat_threshold[6] = {
    0x1.6166d4b9de839p+4, 0x1.3f6e264d5714bp+4, 0x1.fd7df6b30b5b3p+3, 0x1.0e43933ae15b2p+4,
    0x1.8800000000004p+2, 0x1.422d8bba16c0ap+4
};

static const int8_t thermostat_next[6][2] = {
    {1, 2}, {-4, 3}, {4, -2}, {-4, 5}, {-4, -1}, {-3, -1}
};

static const float thermostat_action[4] = {
    0x0p+0f, 0x1.002cd2p-2f, 0x1.27a98ep-1f, 0x1p+0f
};

float thermostat_act(const double observation[3]);

float thermostat_act(const double observation[3])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = thermostat_next[at][observation[thermostat_number[pair]] >= thermostat_threshold[pair]];
    }
    return thermostat_action[-1 - at];
}
