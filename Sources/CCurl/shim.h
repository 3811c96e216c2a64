// What Swift can't call of libcurl: curl_easy_setopt and curl_easy_getinfo are variadic. Inline and here, not in CHubShims, so that
// only programs which speak HTTP themselves are linked with libcurl.
#ifndef HUB_CURL_SHIM_H
#define HUB_CURL_SHIM_H

#include <curl/curl.h>

static inline CURLcode hub_curl_set_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

// Strings and lists: libcurl copies strings, but neither lists nor the body's bytes.
static inline CURLcode hub_curl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

typedef size_t (*hub_curl_writer)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode hub_curl_set_writer(CURL *handle, hub_curl_writer writer, void *context) {
    CURLcode result = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, writer);
    return result != CURLE_OK ? result : curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
}

// The answer's head, a line a call; of several heads (100, a proxy's) all.
static inline CURLcode hub_curl_set_head_writer(CURL *handle, hub_curl_writer writer, void *context) {
    CURLcode result = curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, writer);
    return result != CURLE_OK ? result : curl_easy_setopt(handle, CURLOPT_HEADERDATA, context);
}

static inline CURLMcode hub_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

// A look-up that is still running when a transfer ends is left to end by itself (7.87), not waited for: getaddrinfo can't be cut short.
static inline CURLcode hub_curl_leave_lookups(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075700
    return curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)handle;
    return CURLE_OK;
#endif
}

// How a transfer ended: a member of a union without a name.
static inline CURLcode hub_curl_message_result(const CURLMsg *message) { return message->data.result; }

static inline CURLcode hub_curl_get_status(CURL *handle, long *status) {
    return curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, status);
}

// What OpenSSL thinks of the server's certificate (X509_V_…): 0 also when only its name is wrong.
static inline CURLcode hub_curl_get_verdict(CURL *handle, long *verdict) {
    return curl_easy_getinfo(handle, CURLINFO_SSL_VERIFYRESULT, verdict);
}

// A redirect or a URL must not lead to file:, ftp: and the like. The textual option came with 7.85, which deprecated the other one.
static inline CURLcode hub_curl_only_http(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

#endif
