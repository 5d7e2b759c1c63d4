/* The images of digits, and which of them train and which test. */
#ifndef IMAGES_H
#define IMAGES_H

#include <stdio.h>
#include <string.h>

#include "die.h"

enum { IMAGES = 1797, SIDE = 8, PIXELS = SIDE * SIDE, TESTS = 360, TRAININGS = IMAGES - TESTS, CLASSES = 10 };

static struct {
    int digit;
    unsigned char pixels[PIXELS];
} images[IMAGES];
static int trainings[TRAININGS], tests[TESTS];

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be opened");
    char line[17] = "";
    if (fread(line, 1, 16, file) != 16 || strcmp(line, "DIGITS 1797 8 8\n") != 0) die(path, "not a file of digits");
    for (int i = 0; i < IMAGES; i++) {
        images[i].digit = fgetc(file);
        if (fread(images[i].pixels, 1, PIXELS, file) != PIXELS) die(path, "ends early");
        if (images[i].digit < 0 || images[i].digit >= CLASSES) die(path, "a label is no digit");
        for (int p = 0; p < PIXELS; p++)
            if (images[i].pixels[p] > 16) die(path, "a pixel is above 16");
    }
    if (fgetc(file) != EOF) die(path, "is longer than it should be");
    fclose(file);
    int used[2] = {0, 0};
    for (int i = 0; i < IMAGES; i++) *(i % 5 == 0 ? &tests[used[0]++] : &trainings[used[1]++]) = i;
}

#endif
