// A plain program around the emulator's tests, so that the sanitizers need no Python.
#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int count, char** words) {
    const std::string verb = count > 1 ? words[1] : "";
    if (verb == "verdict" && count == 3) return zoo_verdict(atoi(words[2]));
    if (verb == "run" && count == 4) return zoo_run(atoi(words[2]), atoi(words[3]));
    if (verb == "check" && count == 3) return check(words[2]);
    if (verb == "semantics" && count == 2) return semantics();
    fprintf(stderr, "usage: driver verdict CASE | run CASE WORKERS | check NAME | semantics\n");
    return 2;
}
