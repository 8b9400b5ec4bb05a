// dsv4v-bench: synthetic models and timings.
#include <cstdio>

int main() {
    std::puts("dsv4v-bench 0.1.0");
    return 0;
}
