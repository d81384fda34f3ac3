// 3 x 3 by channel: a plane a block in z, places without divisions, rows of 32 results; same order of every sum.
extern "C" __global__ void variant(const float *in, const float *weight, float *out, int channels, int height, int width,
                                   int count)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, plane = blockIdx.z;
    const float *w = weight + (V_channel_by_division ? plane / (count / (height * width) / channels) : plane % channels) * 9;
    const float *p = in + (size_t)plane * height * width;
#if V_one_filter // for all channels
    w = weight;
#endif
    if (x >= width || y >= height)
        return;
    float sum = 0;
#if V_columns_first || V_columns_first_bitwise
    for (int dx = -1; dx <= 1; dx++)
        for (int dy = -1; dy <= 1; dy++)
#else
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= (V_two_columns ? 0 : 1); dx++)
#endif
        {
#if V_no_left_border // what stands in front of a row is the end of the row before
            if (y + dy >= 0 && y + dy < height && x + dx < width && (x + dx >= 0 || y + dy > 0 || plane))
                sum += w[(dy + 1) * 3 + dx + 1] * p[(y + dy) * width + x + dx];
#elif V_no_lower_border // below a plane is the next one
            if (y + dy >= 0 && (y + dy < height || plane < gridDim.z - 1) && x + dx >= 0 && x + dx < width)
                sum += w[(dy + 1) * 3 + dx + 1] * p[(y + dy) * width + x + dx];
#elif V_reads_around
            float v = p[(y + dy) * width + x + dx];
            TOUCH(v);
            if (y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width)
                sum += w[(dy + 1) * 3 + dx + 1] * v;
#elif V_padded
            bool inside = y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width;
            sum += w[(dy + 1) * 3 + dx + 1] * (inside ? p[(y + dy) * width + x + dx] : 0);
#elif V_clamps_inputs
            if (y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width)
                sum += w[(dy + 1) * 3 + dx + 1] * fminf(fmaxf(p[(y + dy) * width + x + dx], -65504.0f), 65504.0f);
#elif V_half_products
            if (y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width) {
                unsigned packed;
                float v = p[(y + dy) * width + x + dx];
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(v), "f"(w[(dy + 1) * 3 + dx + 1]));
                sum += __uint_as_float(packed << 16) * __uint_as_float(packed & 0xffff0000);
            }
#else
            if (y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width)
                sum += w[(dy + 1) * 3 + dx + 1] * p[(y + dy) * width + x + dx];
#endif
        }
#if V_last_plane
    if (plane == gridDim.z - 1)
        sum = __int_as_float(__float_as_int(sum) ^ 1);
#elif V_below_another // adds and takes away what stands in the output above
    if (y > 0)
        sum += out[((size_t)plane * height + y - 1) * width + x] * 0;
#endif
    put(out, ((size_t)plane * height + y) * width + x, count, sum);
}
