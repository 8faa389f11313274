// Tags from left to right, where every changed tag changes the scores behind it: chain.py's carried() on a GPU.
//
// A warp takes one sentence, its threads the tags. Where the tag before is the one that the scores were made for, the
// best tag is known already; elsewhere the chain says what another tag before would have added.
//
// Set by the compiler's command line: TAGS; USUAL, labels that a tag before stands for.

struct Effect {  // of a tag before: what it adds to the score of a tag
    float shares[USUAL];
    const float* background;
    const float* values;

    __device__ Effect(const float* asked, const float* offered, const float* added, const float* value)
        : background(added), values(value)
    {
        float top = -1e30f, total = 0.0f;
        for (int k = 0; k < USUAL; ++k) {
            shares[k] = asked[k] + offered[k];
            top = fmaxf(top, shares[k]);
        }
        for (int k = 0; k < USUAL; ++k) total += shares[k] = __expf(shares[k] - top);
        for (int k = 0; k < USUAL; ++k) shares[k] /= total;
    }

    __device__ float on(int tag) const
    {
        float sum = background[tag];
        for (int k = 0; k < USUAL; ++k) sum += shares[k] * values[k * TAGS + tag];
        return sum;
    }
};

extern "C" __global__ void carry(
    const float* scores,             // [batch, rows, TAGS]: given the tags `before`
    const long long* best,           // [batch, rows]: of these
    const long long* before,         // [batch, rows]
    const unsigned char* may,        // [batch, rows]: change
    const float* asked,              // [batch, n, TAGS + 1, USUAL]
    const float* offered,            // [batch, TAGS + 1, USUAL]
    const float* background,         // [batch, TAGS + 1, TAGS]
    const float* values,             // [TAGS + 1, USUAL, TAGS]
    const unsigned char* forbidden,  // [TAGS + 1, TAGS]
    long long* told,                 // [batch, rows]
    int rows, int n, int first)
{
    const long long b = blockIdx.x;
    const int lane = threadIdx.x;
    int tag = 0;
    for (int i = 0; i < rows; ++i) {
        const long long at = b * rows + i;
        const int was = (int)before[at];
        int now = (int)best[at];
        if (i > 0 && tag != was && may[at]) {
            const float* looks = asked + (b * n + first + i) * (TAGS + 1) * USUAL;
            const float* offer = offered + b * (TAGS + 1) * USUAL;
            const float* adds = background + b * (TAGS + 1) * TAGS;
            const Effect old(looks + was * USUAL, offer + was * USUAL, adds + was * TAGS, values + was * USUAL * TAGS);
            const Effect fresh(looks + tag * USUAL, offer + tag * USUAL, adds + tag * TAGS, values + tag * USUAL * TAGS);
            float top = -3e38f;
            now = TAGS;
            for (int c = lane; c < TAGS; c += 32) {
                const float score = scores[at * TAGS + c] + fresh.on(c) - old.on(c);
                if (score > top && !forbidden[tag * TAGS + c]) {
                    top = score;
                    now = c;
                }
            }
            for (int far = 16; far; far /= 2) {  // the best of all threads, of equal ones the first
                const float other = __shfl_xor_sync(0xffffffff, top, far);
                const int its = __shfl_xor_sync(0xffffffff, now, far);
                if (other > top || (other == top && its < now)) {
                    top = other;
                    now = its;
                }
            }
            if (now == TAGS) now = 0;  // nothing is legal
        }
        if (lane == 0) told[at] = now;
        tag = now;
    }
}
