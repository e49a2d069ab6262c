#include "supervisor/http_request.h"

#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* A line without its end, which may be CRLF or LF. */
struct line {
	const char *text;
	size_t len;
};

static bool
next_line(const char **at, const char *end, struct line *line)
{
	const char *newline = memchr(*at, '\n', (size_t)(end - *at));

	if (newline == NULL)
		return false;
	line->text = *at;
	line->len = (size_t)(newline - *at);
	if (line->len > 0 && line->text[line->len - 1] == '\r')
		line->len--;
	*at = newline + 1;
	return true;
}

/* Cuts the word up to the next blank off the line. */
static struct line
cut_word(struct line *line)
{
	struct line word = {line->text, 0};

	while (word.len < line->len && line->text[word.len] != ' ')
		word.len++;
	line->text += word.len;
	line->len -= word.len;
	if (line->len > 0) {
		line->text++;
		line->len--;
	}
	return word;
}

static bool
line_is(const struct line *line, const char *text)
{
	return line->len == strlen(text) && memcmp(line->text, text, line->len) == 0;
}

static enum http_method
method_of(const struct line *word)
{
	if (line_is(word, "GET"))
		return HTTP_GET;
	if (line_is(word, "HEAD"))
		return HTTP_HEAD;
	if (line_is(word, "POST"))
		return HTTP_POST;
	return HTTP_OTHER;
}

static int
parse_request_line(struct line line, struct http_request *request)
{
	struct line method, target;
	size_t len;

	method = cut_word(&line);
	target = cut_word(&line);
	if (method.len == 0 || target.len == 0 || target.text[0] != '/' ||
	    memchr(target.text, '\0', target.len) != NULL)
		return 400;
	request->method = method_of(&method);
	if (line.len != 8 || memcmp(line.text, "HTTP/1.", 7) != 0)
		return line.len > 5 && memcmp(line.text, "HTTP/", 5) == 0 ? 505 : 400;
	for (len = 0; len < target.len && target.text[len] != '?'; len++)
		;
	if (len < sizeof(request->path)) {
		memcpy(request->path, target.text, len);
		request->path[len] = '\0';
	}
	return 200;
}

/* The value of a header of this name; false if the line is another's. */
static bool
header_value(const struct line *line, const char *name, struct line *value)
{
	size_t len = strlen(name);

	if (line->len <= len || line->text[len] != ':' || strncasecmp(line->text, name, len) != 0)
		return false;
	*value = (struct line){line->text + len + 1, line->len - len - 1};
	while (value->len > 0 && (value->text[0] == ' ' || value->text[0] == '\t')) {
		value->text++;
		value->len--;
	}
	while (value->len > 0 && strchr(" \t", value->text[value->len - 1]) != NULL)
		value->len--;
	return true;
}

static int
parse_length(const struct line *value, size_t *length)
{
	*length = 0;
	if (value->len == 0)
		return 400;
	for (size_t i = 0; i < value->len; i++) {
		if (value->text[i] < '0' || value->text[i] > '9')
			return 400;
		*length = *length * 10 + (size_t)(value->text[i] - '0');
		if (*length > HTTP_BODY_MAX_BYTES)
			return 413;
	}
	return 200;
}

static int
parse_header(const struct line *line, size_t *body)
{
	struct line value;
	size_t length;
	int status;

	if (line->text[0] == ':' || memchr(line->text, ':', line->len) == NULL)
		return 400;
	if (header_value(line, "Transfer-Encoding", &value))
		return 411;
	if (!header_value(line, "Content-Length", &value))
		return 200;
	status = parse_length(&value, &length);
	/* Two lengths that differ would leave open where the request ends. */
	if (status == 200 && *body != SIZE_MAX && *body != length)
		return 400;
	*body = length;
	return status;
}

int
http_request_parse(const char *data, size_t len, struct http_request *request)
{
	const char *at = data,
		   *end = data + (len < HTTP_HEAD_MAX_BYTES ? len : HTTP_HEAD_MAX_BYTES);
	size_t body = SIZE_MAX;
	struct line line;
	int status;

	memset(request, 0, sizeof(*request));
	request->method = HTTP_OTHER;
	if (!next_line(&at, end, &line))
		return len < HTTP_HEAD_MAX_BYTES ? 0 : 431;
	status = parse_request_line(line, request);
	while (status == 200) {
		if (!next_line(&at, end, &line))
			return len < HTTP_HEAD_MAX_BYTES ? 0 : 431;
		if (line.len == 0)
			break;
		status = parse_header(&line, &body);
	}
	if (status != 200)
		return status;
	request->len = (size_t)(at - data) + (body == SIZE_MAX ? 0 : body);
	return len >= request->len ? 200 : 0;
}

const char *
http_status_text(int status)
{
	static const struct {
		int status;
		const char *text;
	} table[] = {
	    {200, "OK"},
	    {202, "Accepted"},
	    {400, "Bad Request"},
	    {403, "Forbidden"},
	    {404, "Not Found"},
	    {405, "Method Not Allowed"},
	    {409, "Conflict"},
	    {411, "Length Required"},
	    {413, "Content Too Large"},
	    {431, "Request Header Fields Too Large"},
	    {500, "Internal Server Error"},
	    {503, "Service Unavailable"},
	    {505, "HTTP Version Not Supported"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].status == status)
			return table[i].text;
	return "Unknown";
}
