// The engine's own shader: colours a pixel from the dots of the 4 x 4 points around it. It calculates
// in integers, and shifts where a negative number would be divided, so that the picture too is the
// same on every device.
#version 450
layout(local_size_x = 8, local_size_y = 8) in;

layout(push_constant) uniform Params { uint rows; } p;  // of weights: results of a column

layout(std430, set = 0, binding = 0) readonly buffer Results { float results[]; };
layout(rgba8ui, set = 0, binding = 1) writeonly uniform uimage2D picture;

// A cubic B-spline at t quarters between two points: what the four around it weigh, 384 together.
ivec4 weights(int t)
{
    int t2 = t * t;
    int t3 = t2 * t;
    int rest = 4 - t;
    return ivec4(rest * rest * rest, 3 * t3 - 24 * t2 + 256, -3 * t3 + 12 * t2 + 48 * t + 64, t3);
}

// Light that goes through the film and back: bright, dark and bright again within 4096.
int film(int phase)
{
    int around = phase & 4095;
    int t = (around < 2048 ? around : 4095 - around) >> 3;
    return (t * t * (765 - 2 * t)) >> 16;
}

void main()
{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, imageSize(picture)))) {
        return;
    }
    ivec4 across = weights(at.x & 3);
    ivec4 down = weights(at.y & 3);
    ivec3 sum = ivec3(0);  // height, slope along x, slope along y
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            uint first = uint((at.x >> 2) + i) * p.rows + uint((at.y >> 2) + j) * 3u;
            // Times a power of two and cut to an integer: exact in any driver.
            ivec3 point = ivec3(vec3(results[first], results[first + 1u], results[first + 2u]) * 2048.0);
            sum += across[i] * down[j] * point;
        }
    }
    sum >>= 16;

    int light = clamp(200 + ((2 * sum.y + 3 * sum.z) >> 7), 90, 256);
    ivec2 off = (sum.yz >> 5) - ivec2(60, 90);  // how far from a slope that mirrors the lamp
    int glint = clamp(256 - ((off.x * off.x + off.y * off.y) >> 5), 0, 256);
    ivec3 color;
    for (int c = 0; c < 3; c++) {
        int tint = 30 + ((film(((sum.x * 5) >> 3) + 1400 + 550 * c) * 220) >> 8);
        color[c] = min(((tint * light) >> 8) + ((glint * glint) >> 9), 255);
    }
    imageStore(picture, at, uvec4(color, 255));
}
