// dsv4v-server: parses options, loads the model, serves.
#include <cstdio>

int main() {
    std::puts("dsv4v-server 0.1.0");
    return 0;
}
