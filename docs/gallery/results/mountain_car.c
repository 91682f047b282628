/*
 * The policy of tessera on MountainCar-v0, exported by spaql 0.2.0.
 * Learned in 400 iterations, 59,895 training steps, seed 0.
 * 18 comparisons, of which a decision takes at most 7.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] position: from -1.20000005 to 0.600000024
 *   [1] velocity: from -0.0700000003 to 0.0700000003
 *
 * The action, one of 2 that occur:
 *   0: accelerate left
 *   2: accelerate right
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * int mountain_car_act(const double observation[2]);  (declare it where it is called)
 *
 * Its tables take 200 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t mountain_car_number[18] = {
    1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0
};

static const double mountain_car_threshold[18] = {
    -0x1.a62e2a46a3d4p-11, -0x1.d944b4e60639dp-1, 0x1.cb5e4eb99e07p-9, -0x1.18317a6169fb5p-7,
    -0x1.c0a75a0567d05p-2, 0x1.bdcfdb8cc2645p-7, -0x1.ffed2006830c2p-2, -0x1.9ffc110cfcba5p-2,
    0x1.e032e27aff7bcp-7, -0x1.80b8bfc11421p-9, 0x1.de02663ba2629p-4, 0x1.fe0193391d389p-4,
    -0x1.aa036c84a01aap-2, -0x1.6c6673d2ce642p-1, -0x1.8e5315bebcfa9p-2, 0x1.c8a0daace5f9ep-6,
    -0x1.d65e3d3235a9fp-1, -0x1.338985156afa4p-3
};

static const int8_t mountain_car_next[18][2] = {
    {1, 2}, {-2, 3}, {4, 5}, {-1, 6}, {-2, -1}, {7, 8}, {9, -1}, {-2, 10}, {11, 12}, {13, -2},
    {-1, -2}, {14, -2}, {-2, 15}, {16, -2}, {-2, -1}, {17, -2}, {-2, -1}, {-1, -2}
};

static const uint8_t mountain_car_action[2] = {
    0, 2
};

int mountain_car_act(const double observation[2]);

int mountain_car_act(const double observation[2])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = mountain_car_next[at][observation[mountain_car_number[pair]] >= mountain_car_threshold[pair]];
    }
    return mountain_car_action[-1 - at];
}
