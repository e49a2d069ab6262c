# cmake -D IN=page.html -D OUT=page.c -P page.cmake: the page as a C array, with the headers that
# allow its own style and script and nothing else.
cmake_policy(VERSION 3.22)

set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

function(base64_of hex out)
  set(text "")
  string(LENGTH "${hex}" length)
  foreach(at RANGE 0 ${length} 6)
    string(SUBSTRING "${hex}000000" ${at} 6 digits)
    math(EXPR word "0x${digits}")
    foreach(shift 18 12 6 0)
      math(EXPR index "(${word} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  # 32 bytes are 43 digits and one of padding.
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# The digest of what stands between <tag> and </tag>.
function(digest_of tag out)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  if(begin EQUAL -1 OR end EQUAL -1)
    message(FATAL_ERROR "${IN}: no <${tag}>")
  endif()
  string(LENGTH "<${tag}>" skip)
  math(EXPR begin "${begin} + ${skip}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${length} text)
  string(SHA256 hex "${text}")
  base64_of("${hex}" digest)
  set(${out} "'sha256-${digest}'" PARENT_SCOPE)
endfunction()

file(READ "${IN}" page)
digest_of(style style)
digest_of(script script)
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)"
  "\\1\n" bytes "${bytes}")
file(WRITE "${OUT}" "#include \"supervisor/page.h\"\n\n"
  "const unsigned char page_html[] = {\n${bytes}\n};\n"
  "const size_t page_html_len = sizeof(page_html);\n"
  "const char page_headers[] =\n"
  "    \"Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src data:; \"\n"
  "    \"style-src ${style}; script-src ${script}; \"\n"
  "    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\\r\\n\"\n"
  "    \"Referrer-Policy: no-referrer\\r\\n\";\n")
