/* Grey pictures: drawn with characters, or in shades where the output is a terminal, and written as PNG. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "die.h"

/* A grey picture, 0 black to 255 white. */
typedef struct {
    int w, h;
    unsigned char *at;
} Picture;

static Picture picture(int w, int h) {
    Picture p = {w, h, (unsigned char *)calloc((size_t)w, (size_t)h)};
    if (!p.at) die("calloc", "out of memory");
    return p;
}

static void print_rows(const Picture *p) {
    const int colours = isatty(STDOUT_FILENO);
    for (int y = 0; y < p->h; y++) {
        printf("  ");
        for (int x = 0; x < p->w; x++) {
            int v = p->at[y * p->w + x];
            if (colours)
                printf("\033[48;5;%dm  ", 232 + v * 23 / 255);
            else
                printf("%c%c", " .:-=+*#%@"[v * 9 / 255], " .:-=+*#%@"[v * 9 / 255]);
        }
        printf(colours ? "\033[0m\n" : "\n");
    }
}

static void put_word(FILE *file, uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(word >> shift & 255), file);
}

static void put_chunk(FILE *file, const char *name, const unsigned char *data, size_t size) {
    uint32_t crc = ~0u;
    put_word(file, (uint32_t)size);
    fwrite(name, 1, 4, file);
    if (size) fwrite(data, 1, size, file);
    for (size_t i = 0; i < 4 + size; i++) {
        crc ^= i < 4 ? (unsigned char)name[i] : data[i - 4];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    put_word(file, ~crc);
}

/* A PNG without compression, each pixel as `zoom` x `zoom`. Appears whole or not at all. */
static void write_png(const Picture *p, int zoom, const char *path) {
    const int w = p->w * zoom, h = p->h * zoom;
    const size_t row = 1 + (size_t)w, bytes = row * (size_t)h, blocks = (bytes + 65534) / 65535;
    unsigned char *data = (unsigned char *)malloc(2 + bytes + 5 * blocks + 4), *end = data;
    char part[4096];
    if (!data || snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) die(path, "cannot be written");
    uint32_t a = 1, b = 0;
    *end++ = 0x78, *end++ = 1;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 65535 == 0) {
            const size_t left = bytes - i, size = left < 65535 ? left : 65535;
            *end++ = left <= 65535;
            *end++ = size & 255, *end++ = size >> 8 & 255, *end++ = ~size & 255, *end++ = ~size >> 8 & 255;
        }
        const int x = (int)(i % row) - 1, y = (int)(i / row);
        *end = x < 0 ? 0 : p->at[y / zoom * p->w + x / zoom];
        a = (a + *end++) % 65521, b = (b + a) % 65521;
    }
    for (int shift = 24; shift >= 0; shift -= 8) *end++ = (b << 16 | a) >> shift & 255;
    FILE *file = fopen(part, "wb");
    if (!file) die(path, "cannot be written");
    unsigned char head[13] = {
        0, 0, (unsigned char)(w >> 8), (unsigned char)w, 0, 0, (unsigned char)(h >> 8), (unsigned char)h, 8, 0, 0,
        0, 0};
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
    put_chunk(file, "IHDR", head, sizeof head);
    put_chunk(file, "IDAT", data, (size_t)(end - data));
    put_chunk(file, "IEND", NULL, 0);
    free(data);
    const int failed = ferror(file);
    if (fclose(file) || failed || rename(part, path)) {
        remove(part);
        die(path, "cannot be written");
    }
}

static Picture stacked(Picture above, Picture below) {
    Picture p = picture(above.w > below.w ? above.w : below.w, above.h + 1 + below.h);
    for (int y = 0; y < above.h; y++) memcpy(&p.at[y * p.w], &above.at[y * above.w], (size_t)above.w);
    for (int y = 0; y < below.h; y++) memcpy(&p.at[(above.h + 1 + y) * p.w], &below.at[y * below.w], (size_t)below.w);
    return p;
}

#endif
