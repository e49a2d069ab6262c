/* The status page: page.html, made into an array when this is built. */
#ifndef SUPERVISOR_PAGE_H
#define SUPERVISOR_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[];
extern const size_t page_html_len;
/* Content-Security-Policy with the digests of its style and its script, and other headers. */
extern const char page_headers[];

#endif
