// SPDX-License-Identifier: Apache-2.0
// Names, files and hashes; what goes over the wire is tested against a fake hub in tests/http/test_hub.py.
#include "hub/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "hub/cache.h"
#include "hub/file_hash.h"
#include "hub/progress_file.h"

namespace lockstep::hub {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HubTest : public ::testing::Test {
 protected:
  HubTest() : dir_(fs::path(::testing::TempDir()) / fmt::format("hub-{}", ::getpid())) { fs::create_directories(dir_); }
  ~HubTest() override { fs::remove_all(dir_); }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  const fs::path dir_;
};

TEST(ModelName, TakesAllItsForms) {
  const auto plain = parse_model_name("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository(), "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->file, "");
  const auto full = parse_model_name("a_b/c.d@refs/pr/1:sub/x-Q4_K_M.gguf");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->revision, "refs/pr/1");
  EXPECT_EQ(full->file, "sub/x-Q4_K_M.gguf");
}

TEST(ModelName, RefusesWhatHuggingFaceRefuses) {
  for (const char* text : {"name",
                           "/name",
                           "org/",
                           "a/b/c",
                           "or g/name",
                           "org/na--me",
                           "org/na..me",
                           "-org/name",
                           "org/name-",
                           "org/.name",
                           "org/name.git",
                           "org/n\xc3\xa4me",
                           "org/name@",
                           "org/name@..",
                           "org/name@a//b",
                           "org/name@a b",
                           "org/name:",
                           "org/name:../x.gguf",
                           "org/name:/x.gguf",
                           "org/name:a\nb"}) {
    EXPECT_FALSE(parse_model_name(text)) << text;
  }
  EXPECT_FALSE(parse_model_name("org/" + std::string(97, 'x')));
  EXPECT_TRUE(parse_model_name("org/" + std::string(96, 'x')));
  EXPECT_THAT(parse_model_name("org/na--me").error().message(), HasSubstr("name 'na--me'"));
}

TEST(ModelName, PathsDoNotResembleOne) {
  for (const char* text : {"", "model", "./org/name", "../name", "/org/name", "~/name", "a/b/c", "org/"}) {
    EXPECT_FALSE(resembles_model_name(text)) << text;
  }
  EXPECT_TRUE(resembles_model_name("org/name@refs/pr/1:dir/file.gguf"));
}

TEST(ModelName, FileNamesStayBelowTheirFolder) {
  for (const char* name : {"", "/a", "..", "a/../b", "a//b", "a/", "./a", "a\\b", "a\tb", "a\x7f"})
    EXPECT_FALSE(is_safe_file_name(name)) << name;
  EXPECT_FALSE(is_safe_file_name(std::string(256, 'a')));
  for (const char* name : {"a", "..a", "a/b.gguf", "a b"}) EXPECT_TRUE(is_safe_file_name(name)) << name;
}

TEST_F(HubTest, SettingsComeFromTheVariablesOfHuggingFace) {
  const char* names[] = {"HF_ENDPOINT",  "HF_TOKEN",       "HF_TOKEN_PATH",  "HF_HOME",
                         "HF_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME", "LOCKSTEP_HUB_CHUNK_BYTES"};
  const auto with = [&](std::vector<std::pair<const char*, std::string>> values) {
    for (const char* name : names) ::unsetenv(name);
    for (const auto& [name, value] : values) ::setenv(name, value.c_str(), 1);
    return settings_from_environment();
  };
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(with({})->cache, "/home/me/.cache/huggingface/hub");
  EXPECT_EQ(with({})->endpoint, "https://huggingface.co");
  EXPECT_EQ(with({{"XDG_CACHE_HOME", "/x"}})->cache, "/x/huggingface/hub");
  EXPECT_EQ(with({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}})->cache, "/home/me/hf/hub");
  EXPECT_EQ(with({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/cache"}})->cache, "/cache");
  EXPECT_EQ(with({{"HF_ENDPOINT", "http://localhost:1/"}})->endpoint, "http://localhost:1");
  EXPECT_FALSE(with({{"HF_ENDPOINT", "ftp://host"}}));
  write("token", "hf_file\n");
  EXPECT_EQ(with({{"HF_HOME", dir_.string()}})->token, "hf_file");
  EXPECT_EQ(with({{"HF_HOME", dir_.string()}, {"HF_TOKEN", " hf_env "}})->token, "hf_env");
  EXPECT_EQ(with({{"HF_TOKEN_PATH", (dir_ / "token").string()}})->token, "hf_file");
  EXPECT_FALSE(with({{"HF_TOKEN", "a\r\nX-Other: b"}}));
  EXPECT_TRUE(with({{"HF_HUB_OFFLINE", "True"}})->offline);
  EXPECT_FALSE(with({{"HF_HUB_OFFLINE", "0"}})->offline);
  EXPECT_EQ(with({{"LOCKSTEP_HUB_CHUNK_BYTES", "4096"}})->chunk_bytes, 4096);
  EXPECT_FALSE(with({{"LOCKSTEP_HUB_CHUNK_BYTES", "4k"}}));
  with({});
}

TEST_F(HubTest, HashesAreGitsAndSha256) {
  const fs::path file = write("x", "hello\n");
  EXPECT_EQ(hash_file(file, HashKind::kGitSha1).value(),
            "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
  EXPECT_EQ(hash_file(file, HashKind::kSha256).value(),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(hash_kind(std::string(40, 'a')), HashKind::kGitSha1);
  EXPECT_EQ(hash_kind(std::string(64, '0')), HashKind::kSha256);
  EXPECT_EQ(hash_kind(std::string(64, 'A')), HashKind::kNone);
  EXPECT_EQ(hash_kind("abc"), HashKind::kNone);
  EXPECT_FALSE(hash_file(dir_ / "none", HashKind::kSha256));
}

TEST(Listing, ReadsTheAnswerAndRefusesOthers) {
  const std::string commit(40, 'c');
  const auto good = parse_listing(
      R"({"sha":")" + commit + R"(","siblings":[{"rfilename":"config.json"},{"rfilename":"a/b"}],"more":1})", "x");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->commit, commit);
  EXPECT_THAT(good->files, ElementsAre("config.json", "a/b"));
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(R"({"sha":"main","siblings":[]})"),
        R"({"sha":")" + commit + "\"}", R"({"sha":")" + commit + R"(","siblings":[{"rfilename":"../../x"}]})",
        R"({"sha":")" + commit + R"(","siblings":[{"name":"x"}]})"}) {
    EXPECT_FALSE(parse_listing(text, "x")) << text;
  }
}

TEST(GgufFiles, OneIsChosenByNameOrPart) {
  const std::vector<std::string> files = {"README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "big/m-F16-00002-of-00002.gguf",
                                          "big/m-F16-00001-of-00002.gguf"};
  EXPECT_THAT(*gguf_files(files, "m-Q8_0.gguf", "o/n"), ElementsAre("m-Q8_0.gguf"));
  EXPECT_THAT(*gguf_files(files, "q4_k_m", "o/n"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(*gguf_files(files, "F16", "o/n"),
              ElementsAre("big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"));
  EXPECT_THAT(*gguf_files({"a.bin"}, "", "o/n"), IsEmpty());
  EXPECT_THAT(*gguf_files({"a.gguf"}, "", "o/n"), ElementsAre("a.gguf"));
  for (const char* wanted : {"", "m-", "Q5", "none.gguf"}) {
    const auto chosen = gguf_files(files, wanted, "o/n");
    ASSERT_FALSE(chosen) << wanted;
    EXPECT_THAT(chosen.error().message(), HasSubstr("m-Q4_K_M.gguf, m-Q8_0.gguf"));
  }
}

TEST_F(HubTest, ARangeGoesOnWhereItStopped) {
  const fs::path path = dir_ / "blob";
  const auto put = [](ProgressFile& file, int64_t chunk, std::string_view text) {
    return file.append(chunk, {text.data(), text.size()});
  };
  {
    auto file = ProgressFile::open(path, 10, 4);
    ASSERT_TRUE(file);
    ASSERT_EQ(file->num_chunks(), 3);
    EXPECT_EQ(file->chunk_size(2), 2);
    EXPECT_TRUE(put(*file, 1, "456").ok());
    EXPECT_EQ(put(*file, 2, "890").code(), StatusCode::kDataLoss);
  }
  {
    auto file = ProgressFile::open(path, 10, 4);
    EXPECT_EQ(file->received(1), 3);
    EXPECT_EQ(file->received_in_all(), 3);
    EXPECT_TRUE(put(*file, 1, "7").ok());
    EXPECT_TRUE(put(*file, 0, "0123").ok());
    EXPECT_FALSE(file->is_whole());
    EXPECT_TRUE(put(*file, 2, "89").ok());
    EXPECT_TRUE(file->is_whole());
    ASSERT_TRUE(file->finish().ok());
  }
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "0123456789");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
}

TEST_F(HubTest, CountsThatDoNotFitStartAgain) {
  const fs::path path = dir_ / "blob";
  const std::string bytes = "0123";
  {
    auto file = ProgressFile::open(path, 10, 4);
    ASSERT_TRUE(file->append(2, std::span(bytes).first(2)).ok());
  }
  EXPECT_EQ(ProgressFile::open(path, 12, 4)->received_in_all(), 0) << "another size";
  {
    ASSERT_TRUE(ProgressFile::open(path, 10, 4)->append(2, std::span(bytes).first(2)).ok());
  }
  fs::resize_file(dir_ / "blob.lockstep.incomplete", 3);
  EXPECT_EQ(ProgressFile::open(path, 10, 4)->received_in_all(), 0) << "the data is not there";
  {
    ASSERT_TRUE(ProgressFile::open(path, 10, 4)->append(0, std::span(bytes)).ok());
  }
  std::ofstream(dir_ / "blob.lockstep.progress", std::ios::binary) << std::string(48, '\xff');
  EXPECT_EQ(ProgressFile::open(path, 10, 4)->received_in_all(), 0) << "nonsense";
}

TEST_F(HubTest, TheCacheIsHuggingFacesOwn) {
  const ModelName model = parse_model_name("org/name").value();
  const Cache cache(dir_, model);
  const std::string commit(40, 'a'), etag(40, 'b');
  ASSERT_TRUE(cache.create().ok());
  EXPECT_EQ(cache.commit_of("main"), "");
  ASSERT_TRUE(cache.set_commit("refs/pr/1", commit).ok());
  EXPECT_EQ(cache.commit_of("refs/pr/1"), commit);
  EXPECT_EQ(cache.commit_of(commit), commit);
  write("models--org--name/blobs/" + etag, "x");
  ASSERT_TRUE(cache.link(commit, "sub/config.json", etag).ok());
  ASSERT_TRUE(cache.link(commit, "sub/config.json", etag).ok()) << "again";
  const fs::path link = dir_ / "models--org--name/snapshots" / commit / "sub/config.json";
  EXPECT_EQ(fs::read_symlink(link), "../../../blobs/" + etag);
  EXPECT_EQ(fs::file_size(link), 1U);
}

TEST_F(HubTest, OfflineSaysWhatIsMissing) {
  Settings settings;
  settings.cache = dir_;
  settings.offline = true;
  const auto path = fetch_model(parse_model_name("org/name").value(), settings, {});
  ASSERT_FALSE(path);
  EXPECT_THAT(path.error().message(), HasSubstr("HF_HUB_OFFLINE is set"));
  EXPECT_THAT(path.error().message(), HasSubstr("models--org--name"));
}

}  // namespace
}  // namespace lockstep::hub
