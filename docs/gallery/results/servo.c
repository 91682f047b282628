/*
 * The policy of tessera on Servo, exported by spaql 0.2.0.
 * Learned in 200 iterations, 20,000 training steps, seed 0.
 * 13 comparisons, of which a decision takes at most 6.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] error: from -6.28318531 to 6.28318531
 *   [1] speed: from -20 to 20
 *
 * The action, of which 5 values occur:
 *   [0] voltage: from -12 to 12
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * double servo_act(const double observation[2]);  (declare it where it is called)
 *
 * Its tables take 183 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t servo_number[13] = {
    0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1
};

static const double servo_threshold[13] = {
    0x1.51882831bf081p-6, -0x1.9ee6f69f1d6dp-3, 0x1.494b4097f8e11p-3, -0x1.b7e7b81566d68p-2,
    0x1.056cca1061005p+1, 0x1.302d6c018d918p+0, 0x1.57e63561ed13p-3, -0x1.c686451f4a117p-2,
    0x1.6ea24ba43a205p+1, -0x1.b9ba39bdb054bp+1, -0x1.dd0c1728fddbbp-1, 0x1.d00eaa259ab05p-1,
    0x1.7135c88a100eep+2
};

static const int8_t servo_next[13][2] = {
    {1, 2}, {3, 4}, {5, 6}, {7, 8}, {-5, -1}, {-4, -1}, {-3, 9}, {10, -5}, {-5, -1}, {11, -1},
    {-5, 12}, {-5, -1}, {-5, -2}
};

static const double servo_action[5] = {
    -0x1.8p+3, -0x1.79525173b112dp+3, -0x1.1167fd8896b6ep+3, -0x1.7780908f55a78p+0, 0x1.8p+3
};

double servo_act(const double observation[2]);

double servo_act(const double observation[2])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = servo_next[at][observation[servo_number[pair]] >= servo_threshold[pair]];
    }
    return servo_action[-1 - at];
}
