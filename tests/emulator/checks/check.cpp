// Runs one check by its name.
#include <cstdio>
#include <string>
#include <vector>

#include "check.h"

static int failures = 0;

void expect(bool condition, const char* file, int line, const char* text) {
    if (condition) return;
    printf("%s:%d: not so: %s\n", file, line, text);
    ++failures;
}

struct Check {
    const char* name;
    void (*run)();
};
static std::vector<Check>& all_checks() {
    static std::vector<Check> checks;
    return checks;
}
bool enlist(const char* name, void (*run)()) {
    all_checks().push_back({name, run});
    return true;
}

int check(const char* name) {
    for (const Check& c : all_checks()) {
        if (std::string(c.name) != name) continue;
        c.run();
        if (failures) printf("last report:\n%s", emu_last_report());
        return failures != 0;
    }
    printf("no such check: %s\n", name);
    return 2;
}
