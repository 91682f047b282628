/*
 * The policy of tessera on Tank, exported by spaql 0.2.0.
 * Learned in 166 iterations, 9,960 training steps, seed 0.
 * 25 comparisons, of which a decision takes at most 9.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] temperature: from 0 to 100
 *   [1] power 1 back: from 0 to 1
 *   [2] power 2 back: from 0 to 1
 *   [3] power 3 back: from 0 to 1
 *
 * The action, of which 21 values occur:
 *   [0] power: from 0 to 1
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * double tank_act(const double observation[4]);  (declare it where it is called)
 *
 * Its tables take 443 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t tank_number[25] = {
    0, 0, 0, 2, 2, 2, 3, 3, 0, 3, 3, 1, 3, 0, 0, 3, 2, 1, 3, 1, 0, 3, 2, 1, 1
};

static const double tank_threshold[25] = {
    0x1.d76ed686d19ap+5, 0x1.98357eeee68b5p+5, 0x1.00f1b5c6d0511p+6, 0x1.a05019be6f024p-1,
    0x1.f3257aa1c6e72p-2, 0x1.454baf9fc3928p-2, 0x1.00041bbc0c924p-4, 0x1.c0177538e598p-1,
    0x1.60e67c2d35edp+5, 0x1.27fca86284ca1p-2, 0x1.12837de2f9984p-1, 0x1.a0677953d967p-1,
    0x1.3f612715654b3p-1, 0x1.21f15cf6243a9p+6, 0x1.2d25636093ce1p+5, 0x1.938ba217a1e8p-4,
    0x1.7fbaf15e54268p-2, 0x1.38c30f3b2f2a8p-1, 0x1.c0007230fbe8dp-2, 0x1.a04fff3f6ed9ep-1,
    0x1.bfe1ba4dcb3f9p+5, 0x1.4cc0f5289100cp-2, 0x1.8050040d9093cp-1, 0x1.41b3bc2f1ae6p-2,
    0x1.38c2fd3f7b8e3p-1
};

static const int8_t tank_next[25][2] = {
    {1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, -2}, {-20, -14}, {14, 15}, {-21, 16},
    {17, -6}, {-16, 18}, {19, -5}, {-18, -1}, {-19, -11}, {-12, -6}, {-17, -8}, {20, -10},
    {-13, -1}, {21, -3}, {-15, -6}, {-9, 22}, {23, -7}, {-18, 24}, {-6, -4}
};

static const double tank_action[21] = {
    0x0p+0, 0x1.59c35ee75bf89p-7, 0x1.8p-2, 0x1.9cbc7fb26e902p-2, 0x1.eeaf859917e3ep-2, 0x1p-1,
    0x1.026fbecf7135cp-1, 0x1.02befe5969004p-1, 0x1.34cd4aed2b74fp-1, 0x1.3f3429102b3b2p-1,
    0x1.3f71803682264p-1, 0x1.3f85fd8cb2adcp-1, 0x1.722f5dfbe5b68p-1, 0x1.80a0193fac633p-1,
    0x1.81f9e64c7c7bep-1, 0x1.be40048fa82c3p-1, 0x1.bf2a23212d6bap-1, 0x1.c02f481ff4e6ep-1,
    0x1.c8ebe059108cap-1, 0x1.faef77f027b0ap-1, 0x1p+0
};

double tank_act(const double observation[4]);

double tank_act(const double observation[4])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = tank_next[at][observation[tank_number[pair]] >= tank_threshold[pair]];
    }
    return tank_action[-1 - at];
}
