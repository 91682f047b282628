/*
 * Times the decisions of an exported policy at random errors and speeds of a servo; servo.py compiles and runs it.
 *
 * The best of several rounds is printed, as other programs can only make one slower.  A call is part of a decision.
 */

#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#define COUNTER "cycles of the time stamp counter"
#else
#define COUNTER "cycles (no counter on this processor)"
#endif

#define STATES 4096
#define ROUNDS 200

double policy_act(const double observation[2]);

static double states[STATES][2];
static volatile double sink;

static uint64_t read_counter(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

static double random_number(double most)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return most * ((double)(state >> 11) / 4503599627370496.0 - 1.0);
}

int main(void)
{
    double best = 1e9, cycles = 1e18;
    for (int i = 0; i < STATES; i++) {
        states[i][0] = random_number(3.14);
        states[i][1] = random_number(10.0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec begin, end;
        double sum = 0.0;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        const uint64_t first = read_counter();
        for (int i = 0; i < STATES; i++)
            sum += policy_act(states[i]);
        const uint64_t last = read_counter();
        clock_gettime(CLOCK_MONOTONIC, &end);
        sink = sum;
        const double taken = 1e9 * (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec);
        best = taken / STATES < best ? taken / STATES : best;
        cycles = (double)(last - first) / STATES < cycles ? (double)(last - first) / STATES : cycles;
    }
    printf("time per decision: %.1f ns, %.0f %s\n", best, cycles, COUNTER);
    return 0;
}
