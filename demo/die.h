/* The end of a program that cannot go on: one line that says why, and exit status 2. */
#ifndef DIE_H
#define DIE_H

#include <stdio.h>
#include <stdlib.h>

#ifndef PROGRAM
#define PROGRAM "digits"
#endif

static void die(const char *what, const char *why) {
    fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
    exit(2);
}

#endif
