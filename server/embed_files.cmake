# Writes a C++ file with the bytes of every file under FOLDER:
#   cmake -DFOLDER=web/dist -DOUTPUT=embedded_files.cpp -P embed_files.cmake
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.html ${FOLDER}/*.js ${FOLDER}/*.css
  ${FOLDER}/*.svg ${FOLDER}/*.png ${FOLDER}/*.ico ${FOLDER}/*.woff2)
set(arrays "")
set(rows "")
set(n 0)
foreach(file ${files})
  file(READ ${FOLDER}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
  # Literals of 1,000 bytes each: compilers limit the length of one.
  string(REGEX REPLACE "(................................................................................................................................................................................................................................................................................................................................................................................................................)" "\\1\"\n\"" bytes "${bytes}")
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  string(APPEND arrays "constexpr char kFile${n}[] =\n\"${bytes}\";\n")
  string(APPEND rows "    {\"${file}\", std::string_view(kFile${n}, ${n_bytes})},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Generated from web/dist.
#include <array>

#include \"server/web_assets.h\"

namespace dsv4v {

namespace {

${arrays}
constexpr std::array<EmbeddedFile, ${n}> kFiles = {{
${rows}}};

} // namespace

std::span<const EmbeddedFile> embedded_files() { return kFiles; }

} // namespace dsv4v
")
