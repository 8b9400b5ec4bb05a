// dsv4v-server: parses options, loads the model, serves.
#include <cstdio>

#include "server/application.h"
#include "server/options.h"

int main(int argc, char** argv) {
    const auto options = dsv4v::parse_options(argc, argv);
    if (!options) {
        std::fputs(options.error().text.c_str(), options.error().exit_code == 0 ? stdout : stderr);
        return options.error().exit_code;
    }
    return dsv4v::run_application(*options);
}
