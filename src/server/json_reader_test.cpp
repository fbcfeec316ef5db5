// SPDX-License-Identifier: Apache-2.0
#include "server/json_reader.h"

#include <chrono>

#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

std::string refused(std::string_view body) {
  const auto json = parse_body(body);
  if (json) return "accepted: " + dump(*json);
  EXPECT_EQ(json.error().http_status, 400);
  return json.error().message;
}

TEST(ParseBody, KeepsOrderAndTakesTheLastOfEqualKeys) {
  const auto json = parse_body(R"({"z":1,"a":{"y":2,"b":[true,null,-3,1.5,"x"]},"z":4})");
  ASSERT_TRUE(json);
  EXPECT_EQ(dump(*json), R"({"z":4,"a":{"y":2,"b":[true,null,-3,1.5,"x"]}})");
}

TEST(ParseBody, RefusesWhatIsNotJson) {
  for (const char* body : {"", "{", R"({"a":1,})", R"({"model":"M","messages":[],x})", "{\"a\":1} x", "nul", "{'a':1}",
                           "[1 2]", "NaN", "1e999", "\"\t\""}) {
    EXPECT_NE(refused(body).find("not valid JSON"), std::string::npos) << body << ": " << refused(body);
  }
}

TEST(ParseBody, RefusesLoneSurrogatesAndTakesPairs) {
  EXPECT_NE(refused(R"({"c":"hi \ud83d"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"c":"\ude00"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"c":"\ud83dx"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"c":"\ud83d\ud83d"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"\ud83d":1})").find("not valid JSON"), std::string::npos);
  const auto json = parse_body(R"("\ud83d\ude00")");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->get<std::string>(), "😀");
}

TEST(ParseBody, RefusesBadUtf8AndQuotesNothingOfIt) {
  for (const std::string body : {"{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}",
                                 "{\"a\":\"\xe2\x82\"}", "{\"\xf5\":1}"}) {
    const std::string message = refused(body);
    EXPECT_NE(message.find("not valid JSON"), std::string::npos);
    EXPECT_EQ(message.find_first_of("\xff\xc0\xed\xe2\xf5"), std::string::npos) << message;
  }
}

TEST(ParseBody, RefusesDepthBombs) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_body(nested(kMaxJsonDepth)));
  EXPECT_NE(refused(nested(kMaxJsonDepth + 1)).find("nests deeper"), std::string::npos);
  EXPECT_NE(refused(std::string(4'000'000, '[')).find("nests deeper"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(refused(objects).find("nests deeper"), std::string::npos);
}

TEST(ParseBody, ManyKeysTakeLinearTime) {
  std::string body = "{";
  for (int i = 0; i < 300000; ++i) body += fmt::format("\"k{}\":1,", i);
  body.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  const auto json = parse_body(body);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->size(), 300000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));  // a scan for each key takes minutes
}

}  // namespace
}  // namespace lockstep::server
