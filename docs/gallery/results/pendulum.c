/*
 * The policy of tessera on Pendulum-v1, exported by spaql 0.2.0.
 * Learned in 100 iterations, 20,000 training steps, seed 0.
 * 31 comparisons, of which a decision takes at most 8.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] cos(angle): from -1 to 1
 *   [1] sin(angle): from -1 to 1
 *   [2] angular velocity: from -8 to 8
 *
 * The action, of which 19 values occur:
 *   [0] torque: from -2 to 2
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * float pendulum_act(const double observation[3]);  (declare it where it is called)
 *
 * Its tables take 417 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t pendulum_number[31] = {
    1, 2, 1, 0, 0, 2, 2, 0, 2, 2, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0, 1, 2, 1, 2, 0, 0, 2, 0
};

static const double pendulum_threshold[31] = {
    0x1.14a989f14ef8p-8, 0x1.629162f48d4e9p-1, 0x1.74da809325858p-4, -0x1.9298b99389cf4p-4,
    0x1.d1b511c9ed875p-3, -0x1.9bdbc849ad0bfp-5, -0x1.1d3ce1d7222c7p+2, 0x1.ff82e834e6522p-1,
    0x1.6a6d17cb76532p+2, 0x1.f725bebbf773bp+1, -0x1.a6445abd8f0d7p-5, -0x1.c27031f2aa92p-1,
    -0x1.37787413d4edp-6, -0x1.48f76a04f5092p-1, -0x1.0a5f4ea13af26p-2, -0x1.9e6cab602fe39p-2,
    -0x1.bf2e4550eba62p+2, -0x1.e27329c57f05bp-1, -0x1.4f1281e4cdbf2p+0, 0x1.c11b10373cf1bp+2,
    0x1.8c054e14a4166p+1, -0x1.9ead6c921e658p+2, 0x1.64f8ce7fa854fp-1, 0x1.111afd6a147bbp-2,
    0x1.58b6888a54c6bp+1, 0x1.d87a43e3d607ep-2, -0x1.6f64eed92484bp-1, 0x1.a70fa2d8b3577p-1,
    0x1.757830e5d4db7p-1, -0x1.359e278d12d21p+1, -0x1.bf7f774c2544p-8
};

static const int8_t pendulum_next[31][2] = {
    {1, 2}, {3, 4}, {5, 6}, {-1, 7}, {8, 9}, {10, 11}, {12, 13}, {-19, -9}, {-19, 14}, {15, -5},
    {-1, -14}, {-19, -2}, {16, -16}, {17, 18}, {19, -1}, {20, -3}, {-19, 21}, {-4, -19}, {22, 23},
    {-17, -12}, {24, -13}, {-14, -1}, {-1, 25}, {26, 27}, {-19, 28}, {-11, 29}, {-7, -1}, {30, -1},
    {-18, -15}, {-10, -6}, {-19, -8}
};

static const float pendulum_action[19] = {
    -0x1p+1f, -0x1.f8fe6ep+0f, -0x1.bd3828p+0f, -0x1.baf66ap+0f, -0x1.77a4p+0f, -0x1.bc5572p-1f,
    -0x1.8c2d58p-7f, 0x1.f5e2a4p-4f, 0x1.c2d48cp-3f, 0x1.16dfb2p-2f, 0x1.64e32cp-2f, 0x1.b17226p-2f,
    0x1.e91c06p-2f, 0x1p+0f, 0x1.02p+0f, 0x1.f1ad94p+0f, 0x1.fe7dbp+0f, 0x1.ff4fe2p+0f, 0x1p+1f
};

float pendulum_act(const double observation[3]);

float pendulum_act(const double observation[3])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = pendulum_next[at][observation[pendulum_number[pair]] >= pendulum_threshold[pair]];
    }
    return pendulum_action[-1 - at];
}
