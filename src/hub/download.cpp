// SPDX-License-Identifier: Apache-2.0
#include "hub/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <list>

#include "base/log.h"
#include "hub/file_hash.h"
#include "hub/progress_file.h"

namespace lockstep::hub {
namespace {

using Clock = std::chrono::steady_clock;

/// A range that is not whole yet.
struct Range {
  size_t file;
  int64_t chunk;
  int failures = 0;  // in a row, without a byte between
  Clock::time_point not_before{};
};

struct Transfer {
  Transfer(Easy handle, const Range& of) : easy(std::move(handle)), range(of) {}
  Easy easy;
  Range range;
  ProgressFile* file = nullptr;
  int64_t file_size = 0, from = 0;
  bool checked = false;  // the answer's head
  bool taken = false;    // the body is the file's
  Headers headers;
  Status status;
};

/// first and total of "bytes first-last/total"; false if it is none.
bool parse_content_range(std::string_view text, int64_t& first, int64_t& total) {
  if (!text.starts_with("bytes ")) return false;
  text.remove_prefix(6);
  const char* end = text.data() + text.size();
  const auto [dash, code] = std::from_chars(text.data(), end, first);
  const size_t slash = text.find('/');
  if (code != std::errc{} || dash == end || *dash != '-' || slash == text.npos) return false;
  const auto [last, total_code] = std::from_chars(text.data() + slash + 1, end, total);
  return total_code == std::errc{} && last == end;
}

/// Is this the range that was asked for? Sets `taken`, or `status`.
void check_head(Transfer& transfer) {
  transfer.checked = true;
  long code = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &code);
  const std::string name = transfer.file->data_path().filename().string();
  if (code == 206) {
    const auto header = transfer.headers.find("content-range");
    int64_t first = -1, total = -1;
    if (header == transfer.headers.end() || !parse_content_range(header->second, first, total) ||
        first != transfer.from || total != transfer.file_size) {
      transfer.status =
          error(StatusCode::kDataLoss, "{}: the server answers '{}', asked for byte {} of {}", name,
                header == transfer.headers.end() ? "no range" : header->second, transfer.from, transfer.file_size);
      return;
    }
    transfer.taken = true;
  } else if (code == 200) {
    if (transfer.file->num_chunks() > 1) {
      transfer.status = error(StatusCode::kUnsupported, "{}: the server can't send parts of a file (no Range)", name);
      return;
    }
    transfer.file->forget(0);  // the whole file comes, though perhaps only its end was asked for
    transfer.taken = true;
  }
}

size_t take_body(char* data, size_t, size_t size, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  if (!transfer.checked) check_head(transfer);
  if (transfer.status.ok() && transfer.taken)
    transfer.status = transfer.file->append(transfer.range.chunk, {data, size});
  return transfer.status.ok() ? size : CURL_WRITEFUNC_ERROR;
}

size_t take_header(char* data, size_t, size_t size, void* pointer) {
  add_header_line({data, size}, static_cast<Transfer*>(pointer)->headers);
  return size;
}

/// One round: every range of every file, or an error.
class Round final {
 public:
  Round(const Http& http, const Settings& settings, std::string_view repository, const std::vector<Target>& targets,
        const Progress& progress)
      : http_(http), settings_(settings), repository_(repository), targets_(targets), progress_(progress) {}

  Status run(std::vector<ProgressFile>& files);

 private:
  void start_transfers();
  void start(const Range& range);
  Status finish(CURL* easy, CURLcode code);
  Status try_again(const Transfer& transfer, const std::string& reason);
  void report(const std::vector<ProgressFile>& files) const;

  const Http& http_;
  const Settings& settings_;
  std::string repository_;
  const std::vector<Target>& targets_;
  const Progress& progress_;
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_{curl_multi_init(), &curl_multi_cleanup};
  std::vector<ProgressFile>* files_ = nullptr;
  std::deque<Range> waiting_;
  std::list<Transfer> running_;  // removed from multi_ before they end
};

void Round::start_transfers() {
  const auto now = Clock::now();
  for (size_t tries = waiting_.size(); tries > 0 && std::ssize(running_) < settings_.connections; --tries) {
    const Range range = waiting_.front();
    waiting_.pop_front();
    if (range.not_before > now) {
      waiting_.push_back(range);
    } else {
      start(range);
    }
  }
}

void Round::start(const Range& range) {
  Transfer& transfer = running_.emplace_back(http_.handle(), range);
  transfer.file = &(*files_)[range.file];
  transfer.file_size = targets_[range.file].file.size;
  const ProgressFile& file = *transfer.file;
  transfer.from = file.chunk_begin(range.chunk) + file.received(range.chunk);
  const int64_t last = file.chunk_begin(range.chunk) + file.chunk_size(range.chunk) - 1;
  CURL* easy = transfer.easy.get();
  curl_easy_setopt(easy, CURLOPT_URL, targets_[range.file].file.url.c_str());
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
  if (file.num_chunks() > 1 || transfer.from > 0) {
    curl_easy_setopt(easy, CURLOPT_RANGE, fmt::format("{}-{}", transfer.from, last).c_str());
  }
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_multi_add_handle(multi_.get(), easy);
}

Status Round::finish(CURL* easy, CURLcode code) {
  const auto found =
      std::find_if(running_.begin(), running_.end(), [&](const Transfer& t) { return t.easy.get() == easy; });
  curl_multi_remove_handle(multi_.get(), easy);
  std::list<Transfer> ended;
  ended.splice(ended.begin(), running_, found);
  Transfer& transfer = ended.front();
  LOCKSTEP_RETURN_IF_ERROR(transfer.status);
  const std::string& url = targets_[transfer.range.file].file.url;
  if (code != CURLE_OK) {
    if (is_passing(code)) return try_again(transfer, curl_easy_strerror(code));
    return error(StatusCode::kUnavailable, "{}: {}", url, curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  if (is_passing(status)) return try_again(transfer, fmt::format("status {}", status));
  if (status != 200 && status != 206) {
    return refusal(settings_, repository_, targets_[transfer.range.file].file.name, status, transfer.headers);
  }
  const ProgressFile& file = *transfer.file;
  if (file.received(transfer.range.chunk) == file.chunk_size(transfer.range.chunk)) return {};
  return try_again(transfer, "the answer ended early");
}

Status Round::try_again(const Transfer& transfer, const std::string& reason) {
  Range range = transfer.range;
  const ProgressFile& file = *transfer.file;
  const bool got_on = file.chunk_begin(range.chunk) + file.received(range.chunk) > transfer.from;
  range.failures = got_on ? 0 : range.failures + 1;
  const std::string& name = targets_[range.file].file.name;
  if (range.failures > settings_.retries) {
    return error(StatusCode::kUnavailable,
                 "{}: {}: {} tries failed, the last: {}. What is here is kept: the same command goes on", repository_,
                 name, range.failures, reason);
  }
  const int64_t pause = got_on ? 0 : std::min<int64_t>(settings_.first_wait_ms << (range.failures - 1), 60000);
  const int64_t wait_ms = std::max(pause, 1000 * retry_after_s(transfer.headers));
  log_debug("{}: byte {}: {}; trying again in {} ms", name, transfer.from, reason, wait_ms);
  range.not_before = Clock::now() + std::chrono::milliseconds(wait_ms);
  waiting_.push_back(range);
  return {};
}

void Round::report(const std::vector<ProgressFile>& files) const {
  if (!progress_) return;
  int64_t done = 0, total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    done += files[i].received_in_all();
    total += targets_[i].file.size;
  }
  progress_(done, total);
}

Status Round::run(std::vector<ProgressFile>& files) {
  files_ = &files;
  for (size_t i = 0; i < files.size(); ++i) {
    for (int64_t chunk = 0; chunk < files[i].num_chunks(); ++chunk) {
      if (files[i].received(chunk) < files[i].chunk_size(chunk)) waiting_.push_back({i, chunk});
    }
  }
  Status status;
  while (status.ok() && !(waiting_.empty() && running_.empty())) {
    start_transfers();
    int active = 0, left = 0;
    curl_multi_perform(multi_.get(), &active);
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE && status.ok()) status = finish(message->easy_handle, message->data.result);
    }
    report(files);
    if (status.ok()) curl_multi_poll(multi_.get(), nullptr, 0, running_.empty() ? 50 : 200, nullptr);
  }
  for (Transfer& transfer : running_) curl_multi_remove_handle(multi_.get(), transfer.easy.get());
  return status;
}

}  // namespace

Status download(const Http& http, const Settings& settings, std::string_view repository,
                const std::vector<Target>& targets, const Progress& progress) {
  std::vector<Target> left = targets;
  for (int round = 0; !left.empty(); ++round) {
    std::vector<ProgressFile> files;
    files.reserve(left.size());
    for (const Target& target : left) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto file, ProgressFile::open(target.path, target.file.size, settings.chunk_bytes));
      files.push_back(std::move(file));
    }
    LOCKSTEP_RETURN_IF_ERROR(Round(http, settings, repository, left, progress).run(files));
    std::vector<Target> wrong;
    for (size_t i = 0; i < left.size(); ++i) {
      const RemoteFile& file = left[i].file;
      const HashKind kind = hash_kind(file.etag);
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string hash, hash_file(files[i].data_path(), kind));
      if (kind == HashKind::kNone) log_warning("{}: the server gives no hash of it; it is not checked", file.name);
      if (kind == HashKind::kNone || hash == file.etag) {
        LOCKSTEP_RETURN_IF_ERROR(files[i].finish());
        continue;
      }
      files[i].discard();
      if (round > 0) {
        return error(StatusCode::kDataLoss, "{}: {}: its hash is {}, expected {}; downloaded twice and removed",
                     repository, file.name, hash, file.etag);
      }
      log_warning("{}: its hash is wrong; downloading it again", file.name);
      wrong.push_back(left[i]);
    }
    left = std::move(wrong);
  }
  return {};
}

}  // namespace lockstep::hub
