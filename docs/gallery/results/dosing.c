/*
 * The policy of tessera on Infusion, exported by spaql 0.2.0.
 * Learned in 1,000 iterations, 20,000 training steps, seed 0.
 * 45 comparisons, of which a decision takes at most 8.
 *
 * The observation, in this order, with the range of each number (numbers outside are clipped to it):
 *   [0] level: from 0 to 80
 *   [1] level before: from 0 to 80
 *   [2] last rate: from 0 to 150
 *
 * The action, of which 38 values occur:
 *   [0] rate: from 0 to 150
 *
 * NaN is below every threshold; an infinite number is the nearer end of its range.
 *
 * double dosing_act(const double observation[3]);  (declare it where it is called)
 *
 * Its tables take 799 bytes. A node compares a number with a threshold and goes to another,
 * one for below and one for the threshold and above; a `next` less than 0 ends with the action -1 - next.
 */

#include <float.h>
#include <stdint.h>

#if DBL_MANT_DIG < 53
#error "the thresholds are exact for a double of 53 bits"
#endif

static const uint8_t dosing_number[45] = {
    0, 0, 0, 0, 2, 2, 0, 2, 0, 0, 0, 0, 0, 2, 0, 2, 2, 2, 2, 2, 1, 1, 2, 0, 2, 0, 2, 0, 0, 1, 2, 2,
    0, 2, 0, 2, 0, 2, 2, 2, 0, 0, 2, 1, 1
};

static const double dosing_threshold[45] = {
    0x1.b2486bfe78f7dp+3, 0x1.332265e507ee5p+3, 0x1.ff1a360d49689p+3, 0x1.58de7dc50d7aep+2,
    0x1.46094f9f8e788p+5, 0x1.2623ffffffffep+5, 0x1.2b8d998cc6325p+4, 0x1.2bae9a2e2b0ddp+4,
    0x1.d913cb7b65965p+2, 0x1.5ed82897da357p+3, 0x1.7a1852b791638p+3, 0x1.c22deb63f9223p+3,
    0x1.ca1c5b67f109cp+3, 0x1.745e3e211bp+6, 0x1.91a283e58221ep+0, 0x1.dc518446148c8p+3,
    0x1.6b49e1f243bddp+3, 0x1.d8ebfab390a4dp+4, 0x1.d8ebfab390a4bp+4, 0x1.94e2000000002p+6,
    0x1.144141245e8d6p+2, 0x1.9e5ad5526ea6p-4, 0x1.1364000000002p+7, 0x1.1c21b20edd0cep+3,
    0x1.21c1bf944d884p+6, 0x1.4734814b812f5p+3, 0x1.172f08cdcdc76p+5, 0x1.8078ae6729fa7p+3,
    0x1.8407bd2c1ed2cp+3, 0x1.f73b8e35365bdp+2, 0x1.b46b74439332dp+5, 0x1.a30a3284a29b5p+5,
    0x1.ef3bca5b1b09cp+3, 0x1.083dfbc1b6dcfp+4, 0x1.471bcce3d46b6p+3, 0x1.042898c83e51p+4,
    0x1.98c796e312a9fp+3, 0x1.3434p+5, 0x1.19eefa1877391p+5, 0x1.2ad4p+6, 0x1.506fb5b57ccedp+3,
    0x1.9af84306e7373p+3, 0x1.83e4p+6, 0x1.9087b9ff60bcap+3, 0x1.599fc4d091589p+1
};

static const int8_t dosing_next[45][2] = {
    {1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, -1}, {14, -31}, {15, 16}, {17, 18},
    {19, 20}, {-6, -3}, {21, 22}, {-1, -4}, {-32, -34}, {-35, -36}, {23, 24}, {25, 26}, {27, 28},
    {29, -37}, {-5, 30}, {-12, 31}, {32, -25}, {-33, -23}, {-28, -38}, {-22, 33}, {34, -24},
    {35, 36}, {37, 38}, {39, 40}, {-18, 41}, {-9, 42}, {-8, -2}, {-16, -19}, {-28, -21}, {-15, 43},
    {-10, -7}, {-18, -20}, {-11, -17}, {44, -30}, {-32, -29}, {-25, -20}, {-16, -26}, {-13, -14},
    {-16, -27}
};

static const double dosing_action[38] = {
    0x0p+0, 0x1.f0e43997386d6p+1, 0x1.f3b4ce5267117p+1, 0x1.220623a629acap+2, 0x1.07ae9405c36f7p+3,
    0x1.10a77635a01ap+3, 0x1.fa88d117d1279p+3, 0x1.184c9d32a45e5p+4, 0x1.4c1945c9de3dcp+4,
    0x1.514840f59e63p+4, 0x1.6b8b00d14496ep+4, 0x1.9f1b00d14496ep+4, 0x1.ba0ae8689b0afp+4,
    0x1.f59p+4, 0x1.00b2f7fd1085bp+5, 0x1.01dp+5, 0x1.029f0672747eep+5, 0x1.2cp+5,
    0x1.3181b784832dap+5, 0x1.437p+5, 0x1.932p+5, 0x1.9919025d2eaa3p+5, 0x1.a5800709d8c71p+5,
    0x1.b44213ed597p+5, 0x1.b648p+5, 0x1.c2p+5, 0x1.c275428c0faaap+5, 0x1.ec3p+5,
    0x1.f78aeaee5eddep+5, 0x1.0b7712241daa5p+6, 0x1.106526a938bedp+6, 0x1.110cp+6,
    0x1.26ff454f7e306p+6, 0x1.470d500230636p+6, 0x1.49a00053a16bbp+6, 0x1.9c9e4a9d4242ep+6,
    0x1.9dacp+6, 0x1.9db951eb50c18p+6
};

double dosing_act(const double observation[3]);

double dosing_act(const double observation[3])
{
    int at = 0;
    while (at >= 0) {
        const int pair = at;
        at = dosing_next[at][observation[dosing_number[pair]] >= dosing_threshold[pair]];
    }
    return dosing_action[-1 - at];
}
