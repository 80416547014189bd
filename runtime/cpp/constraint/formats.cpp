#include "constraint/formats.h"

#include <iterator>

namespace thimble {
namespace {

struct Format {
  std::string_view name;
  std::string_view regex;
};

// Days as long as their months are, the 29th of February in leap years of the Gregorian calendar,
// from the year 1 on; times without leap seconds (RFC 3339).
#define DATE                                                                                \
  "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-"                              \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))|"                                                           \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TIME                                                 \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" \
  "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
// ISO 8601's, as in RFC 3339, appendix A; a timedelta of Python holds 999,999,999 days.
#define COUNT "[0-9]{1,6}"
#define CLOCK "T(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT "S)"
#define DAYS "(?:" COUNT "Y(?:" COUNT "M(?:" COUNT "D)?)?|" COUNT "M(?:" COUNT "D)?|" COUNT "D)"
// RFC 4648's, filled up with "=" as its sections 4 and 5 have it.
#define BASE64(last) \
  "(?:[A-Za-z0-9" last "]{4})*(?:[A-Za-z0-9" last "]{2}==|[A-Za-z0-9" last "]{3}=)?"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL ")*"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define HEX "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                              \
  "(?:(?:" HEX ":){7}" HEX "|(?:" HEX ":){1,7}:|(?:" HEX ":){1,6}:" HEX "|(?:" HEX        \
  ":){1,5}(?::" HEX "){1,2}|(?:" HEX ":){1,4}(?::" HEX "){1,3}|(?:" HEX ":){1,3}(?::" HEX \
  "){1,4}|(?:" HEX ":){1,2}(?::" HEX "){1,5}|" HEX ":(?::" HEX "){1,6}|:(?::" HEX "){1,7}|::)"
// RFC 3986, appendix A, the scheme included.
#define PLAIN "-A-Za-z0-9._~!$&'()*+,;="
#define PERCENT "%[0-9A-Fa-f]{2}"
#define PCHAR "(?:[" PLAIN ":@]|" PERCENT ")"
#define USER "(?:(?:[" PLAIN ":]|" PERCENT ")*@)?"
#define URI_HOST "(?:\\[(?:" IPV6 "|v[0-9A-Fa-f]+\\.[" PLAIN ":]+)\\]|(?:[" PLAIN "]|" PERCENT ")*)"
#define PATH PCHAR "+(?:/" PCHAR "*)*"
#define MORE "(?:" PCHAR "|[/?])*"

constexpr Format kFormats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[tT]" TIME},
    {"duration", "P(?:" COUNT "W|" DAYS "(?:" CLOCK ")?|" CLOCK ")"},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"base64", BASE64("+/")},
    {"base64url", BASE64("_-")},
    {"email", ATOM "(?:\\." ATOM ")*@" HOST},
    {"hostname", HOST},
    {"ipv4", BYTE "(?:\\." BYTE "){3}"},
    {"ipv6", IPV6},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://" USER URI_HOST "(?::[0-9]*)?(?:/" PCHAR "*)*|/(?:" PATH
            ")?|" PATH "|)(?:\\?" MORE ")?(?:#" MORE ")?"},
};

#undef DATE
#undef TIME
#undef COUNT
#undef CLOCK
#undef DAYS
#undef BASE64
#undef LABEL
#undef HOST
#undef ATOM
#undef BYTE
#undef HEX
#undef IPV6
#undef PLAIN
#undef PERCENT
#undef PCHAR
#undef USER
#undef URI_HOST
#undef PATH
#undef MORE

}  // namespace

std::optional<std::string_view> format_regex(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.regex;
  }
  return std::nullopt;
}

bool is_free_format(std::string_view format) {
  for (const std::string_view free :
       {"binary", "directory-path", "file-path", "password", "path"}) {
    if (free == format) return true;
  }
  return false;
}

std::string format_names() {
  std::string names;
  for (const Format& known : kFormats) {
    if (!names.empty()) names += &known == std::end(kFormats) - 1 ? " and " : ", ";
    names += known.name;
  }
  return names;
}

}  // namespace thimble
