/* Stands in for CUDA's header of the same name. */
#ifndef __LIBRARY_TYPES_H__
#define __LIBRARY_TYPES_H__
#define STAND_IN_LIBRARY_TYPES_H
typedef enum libraryPropertyType_t { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
#endif
