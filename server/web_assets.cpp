#include "server/web_assets.h"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <openssl/sha.h>
#include <zlib.h>

namespace dsv4v {

namespace {

constexpr const char* kSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: "
    "blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

struct Asset {
    std::string_view bytes;
    std::string gzip; // empty when it would not be smaller
    std::string etag;
    std::string content_type;
};

std::string content_type_of(std::string_view path) {
    constexpr std::pair<std::string_view, const char*> kTypes[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".woff2", "font/woff2"},
        {".json", "application/json"},
    };
    for (const auto& [suffix, type] : kTypes) {
        if (path.ends_with(suffix)) {
            return type;
        }
    }
    return "application/octet-stream";
}

std::string etag_of(std::string_view bytes) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
    std::string out = "\"";
    for (size_t i = 0; i < 8; ++i) {
        out += fmt::format("{:02x}", digest[i]);
    }
    return out + '"';
}

// `bytes` in gzip form, or "" when that is not shorter.
std::string gzip(std::string_view bytes) {
    constexpr int kGzipWindow = 15 + 16;
    z_stream stream{};
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return {};
    }
    std::string out(bytes.size(), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    out.resize(done ? stream.total_out : 0);
    deflateEnd(&stream);
    return out;
}

bool header_has(const HttpRequest& request, const std::string& name, std::string_view text) {
    const auto found = request.headers.find(name);
    return found != request.headers.end() && found->second.find(text) != std::string::npos;
}

HttpReply serve(const Asset& asset, const HttpRequest& request) {
    HttpReply reply;
    reply.content_type = asset.content_type;
    reply.headers = {{"ETag", asset.etag},
                     {"Cache-Control", "no-cache"},
                     {"Vary", "Accept-Encoding"},
                     {"Content-Security-Policy", kSecurityPolicy},
                     {"Referrer-Policy", "no-referrer"}};
    if (header_has(request, "if-none-match", asset.etag)) {
        reply.status = 304;
        return reply;
    }
    if (!asset.gzip.empty() && header_has(request, "accept-encoding", "gzip")) {
        reply.headers.emplace_back("Content-Encoding", "gzip");
        reply.body = asset.gzip;
    } else {
        reply.body = std::string(asset.bytes);
    }
    return reply;
}

} // namespace

std::vector<Route> web_routes(std::span<const EmbeddedFile> files) {
    std::vector<Route> routes;
    for (const EmbeddedFile& file : files) {
        auto asset = std::make_shared<const Asset>(
            Asset{file.bytes, gzip(file.bytes), etag_of(file.bytes), content_type_of(file.path)});
        const std::string path = file.path == "index.html" ? "/" : "/" + std::string(file.path);
        routes.push_back({"GET", path, RouteAccess::kDiscovery, false,
                          [asset](const HttpRequest& request) { return serve(*asset, request); }});
    }
    return routes;
}

} // namespace dsv4v
