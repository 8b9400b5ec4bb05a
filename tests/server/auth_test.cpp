#include "server/auth.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv4v {
namespace {

using ::testing::HasSubstr;

std::string key_file(const std::string& text) {
    static int n = 0;
    const std::string path = ::testing::TempDir() + "/keys-" + std::to_string(n++);
    std::ofstream(path) << text;
    return path;
}

RequestHead with_key(const std::string& key) {
    RequestHead head;
    head.headers.emplace("authorization", "Bearer " + key);
    return head;
}

TEST(KeyFile, ReadsNamesAndComments) {
    const auto keys =
        read_key_file(key_file("# team\n\nplain-key\n  alice : key-a  \r\nbob:key-b"));
    ASSERT_TRUE(keys.has_value()) << keys.error().message;
    ASSERT_EQ(keys->size(), 3u);
    EXPECT_EQ((*keys)[0].name.size(), 4u) << "unnamed keys go by four hex digits of their digest";
    EXPECT_EQ((*keys)[1].name, "alice");
    EXPECT_EQ((*keys)[2].name, "bob");
}

TEST(KeyFile, NamesTheBadLine) {
    for (const char* bad : {"good\nname:\n", "good\n:key\n", "good\na b:key\n"}) {
        const auto keys = read_key_file(key_file(bad));
        ASSERT_FALSE(keys.has_value()) << bad;
        EXPECT_THAT(keys.error().message, HasSubstr("line 2"));
    }
    EXPECT_FALSE(read_key_file("/nonexistent/keys").has_value());
}

TEST(Authenticator, ReloadsFilesAndKeepsKeysOnError) {
    Options options;
    options.api_key_file = key_file("first:one\n");
    options.api_keys = {"inline"};
    const auto authenticator = Authenticator::create(options);
    ASSERT_TRUE(authenticator.has_value()) << authenticator.error().message;
    Authenticator& keys = **authenticator;
    EXPECT_EQ(keys.api_client(with_key("one")), "first");
    EXPECT_TRUE(keys.api_client(with_key("inline")).has_value());
    EXPECT_FALSE(keys.api_client(with_key("two")).has_value());

    std::ofstream(options.api_key_file) << "second:two\n";
    ASSERT_TRUE(keys.reload().has_value());
    EXPECT_FALSE(keys.api_client(with_key("one")).has_value());
    EXPECT_EQ(keys.api_client(with_key("two")), "second");

    std::ofstream(options.api_key_file) << "broken:\n";
    EXPECT_FALSE(keys.reload().has_value());
    EXPECT_EQ(keys.api_client(with_key("two")), "second");
}

TEST(Authenticator, SeparatesAdministrators) {
    Options options;
    options.api_keys = {"user"};
    options.admin_keys = {"boss"};
    const auto authenticator = Authenticator::create(options);
    ASSERT_TRUE(authenticator.has_value());
    EXPECT_TRUE((*authenticator)->has_admin_keys());
    EXPECT_TRUE((*authenticator)->admin_client(with_key("boss")).has_value());
    EXPECT_FALSE((*authenticator)->admin_client(with_key("user")).has_value());
    EXPECT_FALSE((*authenticator)->admin_client(with_key("")).has_value());
    EXPECT_TRUE((*authenticator)->api_client(with_key("boss")).has_value());
}

TEST(Authenticator, MissingFileIsAnError) {
    Options options;
    options.admin_key_file = "/nonexistent/keys";
    const auto authenticator = Authenticator::create(options);
    ASSERT_FALSE(authenticator.has_value());
    EXPECT_THAT(authenticator.error().message, HasSubstr("/nonexistent/keys"));
}

} // namespace
} // namespace dsv4v
