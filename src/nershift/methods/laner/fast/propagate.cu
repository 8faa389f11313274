// Tags from left to right, where each changed tag changes the scores of the next position: Chain.propagate (chain.py).
//
// A warp takes one sentence, its threads take the tags. Where the tag before is the one that the scores were computed
// for, the best tag is known already; elsewhere the chain corrects the scores for the changed tag.
//
// Set by the compiler's command line: TAGS; PREFIX, labels of a typical prefix.

struct Effect {  // what a tag before adds to the score of each tag
    float shares[PREFIX];
    const float* background;
    const float* values;

    __device__ Effect(const float* by_token, const float* by_background, const float* added, const float* value)
        : background(added), values(value)
    {
        float top = -1e30f, total = 0.0f;
        for (int k = 0; k < PREFIX; ++k) {
            shares[k] = by_token[k] + by_background[k];
            top = fmaxf(top, shares[k]);
        }
        for (int k = 0; k < PREFIX; ++k) total += shares[k] = __expf(shares[k] - top);
        for (int k = 0; k < PREFIX; ++k) shares[k] /= total;
    }

    __device__ float on(int tag) const
    {
        float sum = background[tag];
        for (int k = 0; k < PREFIX; ++k) sum += shares[k] * values[k * TAGS + tag];
        return sum;
    }
};

extern "C" __global__ void propagate(
    const float* scores,                // [batch, rows, TAGS]: given the tags `before`
    const long long* best,              // [batch, rows]: best tags by these scores
    const long long* before,            // [batch, rows]
    const unsigned char* may,           // [batch, rows]: whether a tag may change
    const float* token_attention,       // [batch, n, TAGS + 1, PREFIX]
    const float* background_attention,  // [batch, TAGS + 1, PREFIX]
    const float* background,            // [batch, TAGS + 1, TAGS]
    const float* values,                // [TAGS + 1, PREFIX, TAGS]
    const unsigned char* forbidden,     // [TAGS + 1, TAGS]
    long long* tags,                    // [batch, rows]: the result
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
            const float* by_token = token_attention + (b * n + first + i) * (TAGS + 1) * PREFIX;
            const float* by_background = background_attention + b * (TAGS + 1) * PREFIX;
            const float* added = background + b * (TAGS + 1) * TAGS;
            const Effect old(by_token + was * PREFIX, by_background + was * PREFIX, added + was * TAGS,
                             values + was * PREFIX * TAGS);
            const Effect fresh(by_token + tag * PREFIX, by_background + tag * PREFIX, added + tag * TAGS,
                               values + tag * PREFIX * TAGS);
            float top = -3e38f;
            now = TAGS;
            for (int c = lane; c < TAGS; c += 32) {
                const float score = scores[at * TAGS + c] + fresh.on(c) - old.on(c);
                if (score > top && !forbidden[tag * TAGS + c]) {
                    top = score;
                    now = c;
                }
            }
            for (int far = 16; far; far /= 2) {  // the best of all threads; of equal ones the first
                const float other = __shfl_xor_sync(0xffffffff, top, far);
                const int its = __shfl_xor_sync(0xffffffff, now, far);
                if (other > top || (other == top && its < now)) {
                    top = other;
                    now = its;
                }
            }
            if (now == TAGS) now = 0;  // no tag is legal
        }
        if (lane == 0) tags[at] = now;
        tag = now;
    }
}
