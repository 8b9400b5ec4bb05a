#include "server/web_assets.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/golden.h"
#include "tests/server/http_test_server.h"

namespace dsv4v::testing {
namespace {

using ::testing::HasSubstr;

std::string header(const std::string& reply, const std::string& name) {
    const size_t at = reply.find("\r\n" + name + ": ");
    const size_t begin = at + name.size() + 4;
    return at == std::string::npos ? "" : reply.substr(begin, reply.find("\r\n", begin) - begin);
}

std::string gunzip(const std::string& bytes) {
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    std::string out(1 << 22, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
}

TEST(WebAssets, EmbedTheFilesByteForByte) {
    EXPECT_GE(embedded_files().size(), 3u);
    for (const EmbeddedFile& file : embedded_files()) {
        std::ifstream in(source_root() + "/web/dist/" + std::string(file.path), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(in),
                                std::istreambuf_iterator<char>()};
        EXPECT_TRUE(file.bytes == bytes) << file.path;
    }
}

TEST(WebAssets, ServeThePage) {
    TestServer server;
    server.start(web_routes(embedded_files()));
    RawClient client = server.connect();
    const std::string page = client.exchange(get("/"));
    EXPECT_EQ(status_of(page), 200);
    EXPECT_EQ(header(page, "Content-Type"), "text/html; charset=utf-8");
    EXPECT_THAT(header(page, "Content-Security-Policy"),
                HasSubstr("default-src 'none'; script-src 'self'"));
    EXPECT_EQ(header(page, "Referrer-Policy"), "no-referrer");
    EXPECT_THAT(body_of(page), HasSubstr("<html"));
    const std::string etag = header(page, "ETag");
    ASSERT_FALSE(etag.empty());
    const std::string again = client.exchange(get("/", "If-None-Match: " + etag + "\r\n"));
    EXPECT_EQ(status_of(again), 304);
    EXPECT_EQ(body_of(again), "");
    EXPECT_EQ(status_of(client.exchange(get("/assets/nothing.js"))), 404);
}

TEST(WebAssets, CompressForThoseWhoAsk) {
    TestServer server;
    server.start(web_routes(embedded_files()));
    RawClient client = server.connect();
    const std::string plain = client.exchange(get("/assets/app.js"));
    const std::string small =
        client.exchange(get("/assets/app.js", "Accept-Encoding: br, gzip\r\n"));
    EXPECT_EQ(header(plain, "Content-Encoding"), "");
    EXPECT_EQ(header(small, "Content-Encoding"), "gzip");
    EXPECT_LT(body_of(small).size(), body_of(plain).size());
    EXPECT_TRUE(gunzip(body_of(small)) == body_of(plain));
}

} // namespace
} // namespace dsv4v::testing
