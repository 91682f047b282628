/*
 * The policy of tessera on Intersection, exported by spaql 0.2.0.
 * Learned in 100 iterations, 10,000 training steps, seed 0.
 * 16 comparisons, of which a decision takes at most 6.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] main: from 0 to 60
 *   [1] side: from 0 to 60
 *   [2] green: from 0 to 1
 *
 * The action, one of 2 that occur:
 *   0: green for main
 *   1: green for side
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * int intersection_act(const double observation[3]);  (declare it where it is called)
 *
 * Its tables take 178 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t intersection_number[16] = {
    2, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0
};

static const double intersection_threshold[16] = {
    0x1.ffffffffff82cp-2, 0x1.b8e64e5fab321p+0, 0x1.ffc660650b268p+0, 0x1.14109e49e9551p+1,
    0x1.1cp+5, 0x1.3b0ce9bd8d83ep+0, 0x1.8c1299a95e2dap-2, 0x1.b05978c14b9aap+0,
    0x1.0fda03e2d103fp+1, 0x1.28df4587bbc8p-3, 0x1.a37f2459fb6fap+0, 0x1.89bde61ef64d5p-2,
    0x1.f3285dafcb13dp+1, 0x1.9bcadcf2e6da8p+1, 0x1.f450f8f8b8317p+2, 0x1.03584bf4667aap+0
};

static const int8_t intersection_next[16][2] = {
    {1, 2}, {3, 4}, {5, -2}, {6, 7}, {8, -2}, {9, 10}, {11, -1}, {12, -1}, {13, -1}, {-1, -2},
    {-1, 14}, {-1, -2}, {15, -2}, {-1, -2}, {-2, -1}, {-2, -1}
};

static const uint8_t intersection_action[2] = {
    0, 1
};

int intersection_act(const double observation[3]);

int intersection_act(const double observation[3])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = intersection_next[at][observation[intersection_number[pair]] >= intersection_threshold[pair]];
    }
    return intersection_action[-1 - at];
}
