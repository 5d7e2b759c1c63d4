/* What a network takes each digit for, as a table. */
#ifndef CONFUSION_H
#define CONFUSION_H

#include <stdio.h>

#include "images.h"

/* A row per digit, a column per answer. */
static void print_table(int table[CLASSES][CLASSES], double loss) {
    printf("\n  %d images that it has not seen: loss %.4f; a row per digit, a column per answer\n\n      ", TESTS,
           loss);
    for (int k = 0; k < CLASSES; k++) printf("%4d", k);
    printf("\n");
    for (int d = 0; d < CLASSES; d++) {
        printf("  %2d  ", d);
        for (int k = 0; k < CLASSES; k++) table[d][k] ? printf("%4d", table[d][k]) : printf("   .");
        printf("\n");
    }
}

#endif
