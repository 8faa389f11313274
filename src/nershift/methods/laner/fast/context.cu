// Label context of every position at once (eqs. 7-8 of LANER): the walks of the backward LSTM over all prefixes, and
// the attention over their states, in one kernel. kernels.py describes the arguments.
//
// A block takes one position i of up to WALKS sentences and walks back over the labels i ... 0. Thread u owns unit u
// of the LSTM in all of its walks and adds each state to the mean of eq. 8 as it goes, with a running maximum as other
// fused attentions do: no state is ever written to memory. The cost is reading the recurrent weights, 4 SIZE^2 numbers
// per step. They are in shared memory if they fit, and a number read there serves all walks of the block.
//
// Set by the compiler's command line: SIZE, units; QUADS, walks of a block in fours; SHARED, whether the weights fit.

#define WALKS (4 * QUADS)
#define WARPS ((SIZE + 31) / 32)

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float squash(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }  // tanh

extern "C" __global__ void label_context(
    const float4* weight,         // [SIZE, SIZE], state x unit: of the four gates
    const float* gates,           // [labels, 4, SIZE]
    const long long* labels,      // [batch, n]
    const float* ahead,           // [batch, n, SIZE]
    const float* query,           // [batch, rows, SIZE]
    const float* scores,          // [batch, rows, n]
    const unsigned char* live,    // [batch, n]
    float* out,                   // [batch, rows, 2, SIZE]
    int batch, int n, int rows, int first, int groups)
{
    extern __shared__ float4 room[];
    const int row = rows - 1 - blockIdx.x / groups;  // the longest walks first
    const int position = first + row, begin = blockIdx.x % groups * WALKS;

    bool wanted = false;
    for (int w = begin; w < begin + WALKS && w < batch; ++w) wanted |= live[(long long)w * n + position] != 0;
    if (!wanted) return;

    const int unit = threadIdx.x < SIZE ? threadIdx.x : 0;  // threads beyond the last unit contribute nothing
    const bool mine = threadIdx.x < SIZE;
#if SHARED
    float4* state = room + SIZE * SIZE;  // [2, SIZE, QUADS]: one is read while the other is written
    for (int i = threadIdx.x; i < SIZE * SIZE; i += blockDim.x) room[i] = weight[i];
    const float4* from = room + unit;
#else
    float4* state = room;
    const float4* from = weight + unit;
#endif
    float* looked = (float*)(state + 2 * SIZE * QUADS);  // [2, WARPS, WALKS]: parts of the scores, likewise
    for (int i = threadIdx.x; i < SIZE * QUADS; i += blockDim.x) state[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

    long long sentence[WALKS];
    float asked[WALKS], cell[WALKS], top[WALKS], total[WALKS], forth[WALKS], back[WALKS];  // means, times `total`
#pragma unroll
    for (int w = 0; w < WALKS; ++w) {
        sentence[w] = begin + w < batch ? begin + w : batch - 1;
        asked[w] = mine ? query[(sentence[w] * rows + row) * SIZE + unit] : 0.0f;
        cell[w] = total[w] = forth[w] = back[w] = 0.0f;
        top[w] = -1e30f;
    }
    __syncthreads();

    for (int step = 0; step <= position; ++step) {
        const int at = position - step, now = step & 1, then = now ^ 1;
        float sum[WALKS][4], read[WALKS][4], seen[WALKS], score[WALKS];
#pragma unroll
        for (int w = 0; w < WALKS; ++w) {
            const float* from_label = gates + labels[sentence[w] * n + at] * 4 * SIZE + unit;
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                read[w][g] = from_label[g * SIZE];  // added at the end: no sum has to wait for it
                sum[w][g] = 0.0f;
            }
            seen[w] = ahead[(sentence[w] * n + at) * SIZE + unit];
            score[w] = scores[(sentence[w] * rows + row) * n + at];
        }
        const float4* before = state + now * SIZE * QUADS;
#pragma unroll 10
        for (int k = 0; k < SIZE; ++k) {
            const float4 x = from[k * SIZE];
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                const float4 h = before[k * QUADS + q];
                const float each[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sum[4 * q + j][0] += x.x * each[j];
                    sum[4 * q + j][1] += x.y * each[j];
                    sum[4 * q + j][2] += x.z * each[j];
                    sum[4 * q + j][3] += x.w * each[j];
                }
            }
        }
        float fresh[WALKS];
#pragma unroll
        for (int w = 0; w < WALKS; ++w) {
#pragma unroll
            for (int g = 0; g < 4; ++g) sum[w][g] += read[w][g];
            cell[w] = sigmoid(sum[w][1]) * cell[w] + sigmoid(sum[w][0]) * squash(sum[w][2]);
            fresh[w] = sigmoid(sum[w][3]) * squash(cell[w]);
            float part = fresh[w] * asked[w];
#pragma unroll
            for (int far = 16; far; far /= 2) part += __shfl_xor_sync(0xffffffff, part, far);
            if (threadIdx.x % 32 == 0) looked[(then * WARPS + threadIdx.x / 32) * WALKS + w] = part;
        }
#pragma unroll
        for (int q = 0; mine && q < QUADS; ++q) {
            const float* f = fresh + 4 * q;
            state[(then * SIZE + unit) * QUADS + q] = make_float4(f[0], f[1], f[2], f[3]);
        }
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WALKS; ++w) {
#pragma unroll
            for (int v = 0; v < WARPS; ++v) score[w] += looked[(then * WARPS + v) * WALKS + w];
            const float highest = fmaxf(top[w], score[w]);
            const float kept = __expf(top[w] - highest), share = __expf(score[w] - highest);
            top[w] = highest;
            total[w] = total[w] * kept + share;
            back[w] = back[w] * kept + share * fresh[w];
            forth[w] = forth[w] * kept + share * seen[w];
        }
    }
#pragma unroll
    for (int w = 0; w < WALKS; ++w) {
        if (mine && begin + w < batch) {
            float* place = out + (sentence[w] * rows + row) * 2 * SIZE + unit;
            place[0] = forth[w] / total[w];
            place[SIZE] = back[w] / total[w];
        }
    }
}
