// What a CUDA source needs to run on a CPU, a thread of the system for each of a block's: slow, and enough for a test.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
#define __expf expf
#define __fdividef(a, b) ((a) / (b))

struct float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Index { int x; };
static thread_local Index threadIdx, blockIdx;
static Index blockDim;
float4 room[1 << 16];

static std::unique_ptr<std::barrier<>> all_threads;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static double handed[1024];

static void __syncthreads() { all_threads->arrive_and_wait(); }

template <typename T> static T __shfl_xor_sync(unsigned, T value, int far) {
    auto& warp = *warps[threadIdx.x / 32];
    handed[threadIdx.x] = value;
    warp.arrive_and_wait();
    const T got = (T)handed[threadIdx.x ^ far];
    warp.arrive_and_wait();
    return got;
}

template <typename Run> static void every_block(int blocks, int threads, Run run) {
    blockDim.x = threads;
    for (int block = 0; block < blocks; ++block) {
        all_threads = std::make_unique<std::barrier<>>(threads);
        warps.clear();
        for (int w = 0; w < threads / 32; ++w) warps.push_back(std::make_unique<std::barrier<>>(32));
        std::vector<std::thread> team;
        for (int t = 0; t < threads; ++t)
            team.emplace_back([=] { threadIdx.x = t; blockIdx.x = block; run(); });
        for (auto& one : team) one.join();
    }
}
