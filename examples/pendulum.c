/*
 * Swings a pendulum up and holds it there, with a policy that spaql exported; see docs/how-to/export.md.
 *
 *   spaql export results/pendulum policy.h
 *   gcc -std=c99 -O2 -I. examples/pendulum.c -lm -o pendulum
 *   ./pendulum 1000
 *
 * The physics are those of Gymnasium's Pendulum-v1: 200 steps of 0.05 s, from an angle anywhere and a speed of up to
 * 1 rad/s.  The mean return can be compared with that of `spaql evaluate`, which plays other random episodes.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy.h"

#define STEPS 200
#define HALF_TURN 3.14159265358979323846

static uint64_t state = 88172645463325252u;

/* A random number from low to high (xorshift). */
static double between(double low, double high)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return low + (high - low) * ((double)(state >> 11) / 9007199254740992.0);
}

static double limited(double value, double most)
{
    return value < -most ? -most : value > most ? most : value;
}

/* How far the pendulum hangs from upright, from minus to plus half a turn. */
static double from_upright(double angle)
{
    return angle - 2.0 * HALF_TURN * floor((angle + HALF_TURN) / (2.0 * HALF_TURN));
}

/* One episode: its return, and whether the pendulum stood during the whole of its last second. */
static double episode(int *held)
{
    double angle = between(-HALF_TURN, HALF_TURN), speed = between(-1.0, 1.0), sum = 0.0;
    *held = 1;
    for (int step = 0; step < STEPS; step++) {
        const double observation[3] = {cos(angle), sin(angle), speed};
        const double torque = limited(policy_act(observation), 2.0);
        const double off = from_upright(angle);
        sum -= off * off + 0.1 * speed * speed + 0.001 * torque * torque;
        speed = limited(speed + (15.0 * sin(angle) + 3.0 * torque) * 0.05, 8.0);
        angle += speed * 0.05;
        if (step >= STEPS - 20 && fabs(from_upright(angle)) > 0.3)
            *held = 0;
    }
    return sum;
}

int main(int count, char **words)
{
    const long episodes = count > 1 ? strtol(words[1], NULL, 10) : 1000;
    if (episodes < 2) {
        fprintf(stderr, "pendulum: expected at least 2 episodes\n");
        return 2;
    }
    double sum = 0.0, squares = 0.0;
    long standing = 0;
    for (long i = 0; i < episodes; i++) {
        int held;
        const double result = episode(&held);
        sum += result;
        squares += result * result;
        standing += held;
    }
    const double mean = sum / (double)episodes;
    const double variance = (squares - sum * mean) / (double)(episodes - 1);
    const double margin = 1.96 * sqrt(variance / (double)episodes);
    printf("mean return %.1f [%.1f, %.1f] over %ld episodes; ", mean, mean - margin, mean + margin, episodes);
    printf("upright during the last second in %.1f%% of them\n", 100.0 * (double)standing / (double)episodes);
    return 0;
}
