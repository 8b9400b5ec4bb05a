#include "server/http_reply.h"

#include <ctime>

#include <fmt/format.h>

#include "server/build_info.h"

namespace dsv4v {

namespace {

std::string http_date() {
    constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t now = std::time(nullptr);
    std::tm t{};
    gmtime_r(&now, &t);
    return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday,
                       kMonths[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

// Header values may carry client text (a request id, an origin): line ends never get out.
std::string one_line(std::string_view value) {
    std::string out(value);
    for (char& c : out) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            c = ' ';
        }
    }
    return out;
}

} // namespace

std::string_view status_text(int status) {
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 422:
        return "Unprocessable Content";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Status";
    }
}

std::string reply_head(int status, const std::vector<std::pair<std::string, std::string>>& headers,
                       BodyFraming framing, uint64_t length, bool keep_alive) {
    std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: dsv4v-server/{}\r\nDate: {}\r\n",
                                  status, status_text(status), build_info().version, http_date());
    for (const auto& [name, value] : headers) {
        out += fmt::format("{}: {}\r\n", name, one_line(value));
    }
    const bool bodiless = status == 204 || status == 304;
    if (framing == BodyFraming::kChunked) {
        out += "Transfer-Encoding: chunked\r\n";
    } else if (framing == BodyFraming::kLength && !bodiless) {
        out += fmt::format("Content-Length: {}\r\n", length);
    }
    out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    return out;
}

bool ConnectionSink::write(std::string_view bytes) {
    if (bytes.empty()) { // an empty chunk would end the body
        return !connection_.peer_gone();
    }
    if (transcript_ != nullptr && transcript_->size() < kMaxTranscriptBytes) {
        *transcript_ += bytes.substr(0, kMaxTranscriptBytes - transcript_->size());
    }
    if (framing_ != BodyFraming::kChunked) {
        return connection_.write(bytes);
    }
    return connection_.write(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

bool ConnectionSink::finish() {
    return framing_ == BodyFraming::kChunked ? connection_.write("0\r\n\r\n")
                                             : !connection_.peer_gone();
}

} // namespace dsv4v
