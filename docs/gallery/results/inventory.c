/*
 * The policy of tessera on inventory lead 0 setup 5, exported by spaql 0.2.0.
 * Learned in 1,000 iterations, 20,000 training steps, seed 0.
 * 7 comparisons, of which a decision takes at most 6.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] stock: from 0 to 20
 *
 * The action, of which 8 values occur:
 *   [0] order: from 0 to 1
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * double inventory_act(const double observation[1]);  (declare it where it is called)
 *
 * Its tables take 134 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const double inventory_threshold[7] = {
    0x1.bae16c7d29743p+1, 0x1.492c99f831485p+0, 0x1.066cd12301bc5p+0, 0x1.96e925c703a07p+1,
    0x1.952fc7a3ff3e4p+1, 0x1.0aec2955ff4bcp+1, 0x1.c7e98c5865afdp+0
};

static const int8_t inventory_next[7][2] = {
    {1, -1}, {2, 3}, {-8, -7}, {4, -2}, {5, -4}, {6, -3}, {-5, -6}
};

static const double inventory_action[8] = {
    0x0p+0, 0x1.db85c8ebbad4p-3, 0x1.272d34a9ee521p-2, 0x1.43d0faf1bc187p-2, 0x1.6ap-2,
    0x1.77f84909e0722p-2, 0x1.8dc8dc6265843p-2, 0x1.9b9e940119d58p-2
};

double inventory_act(const double observation[1]);

double inventory_act(const double observation[1])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = inventory_next[at][observation[0] >= inventory_threshold[pair]];
    }
    return inventory_action[-1 - at];
}
