// The picture that both engines draw, a lit film of soap: what goes into kquant for it, and what
// becomes of it.
//
// Its height is a sum of 128 waves; height and slopes are wanted at the points of a grid, and the
// engine's own shader makes pixels of them. sin(a + b) is sin(a) cos(b) + cos(a) sin(b), and slopes
// are sums of the same sines. So what depends on x and the time are the activations of a column of
// points, 256 sines, and what depends on y are the weights of a row: a point takes three dots.
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PICTURE_WIDTH = 288,
    PICTURE_HEIGHT = 160,
    PICTURE_CELL = 4,  // pixels from point to point; a pixel takes the 4 x 4 points around it
    PICTURE_COLUMNS = PICTURE_WIDTH / PICTURE_CELL + 3,
    PICTURE_ROWS = 3 * (PICTURE_HEIGHT / PICTURE_CELL + 3),
    PICTURE_G = 2,        // records of a row of weights
    PICTURE_FRAMES = 60,  // then it starts again
    PICTURE_BYTES = PICTURE_WIDTH * PICTURE_HEIGHT * 4,
};

// PICTURE_ROWS times PICTURE_G records of Q4_K: height, slope along x and slope along y of the
// upper points, and so on. The second record of a row says what the codes of the first lack, and is
// for the same activations.
void picture_weights(unsigned char *records);

// A block of 256 values for each column.
void picture_activations(int frame, float *values);

// Whether the pixels, 4 bytes each, are those of the last frame, PICTURE_FRAMES - 1. They are
// known: kquant gives the same bits on every device, and the engines' own shaders calculate in
// integers.
bool picture_is_right(const unsigned char *rgba);

// As an uncompressed PNG without alpha.
bool picture_write(const char *path, const unsigned char *rgba);

#endif
