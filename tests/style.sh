#!/bin/sh
# Rules of the house that a program can check. Exit status 0, 1 (what breaks the rule is printed), or 77: not checked here.
#
#   tests/style.sh format         every C file is as clang-format leaves it
#   tests/style.sh app_process    what lives in an app's process never ends it, and never writes to its output
#   tests/style.sh device_text    the PTX that is carried for the GPU is made from the sources beside it; needs nvcc 13.0.88
#   tests/style.sh tidy BUILD     clang-tidy on all but the tests, with BUILD's compile_commands.json; takes minutes
set -u
cd "$(dirname "$0")/.." || exit 1
skip() { printf 'skipped: %s\n' "$*" >&2; exit 77; }
sources() { find "$@" \( -name '*.c' -o -name '*.h' \) | sort; }

case ${1:-} in
format)
    command -v clang-format >/dev/null || skip "no clang-format here"
    sources cache interpose offline runtime samples tests | xargs clang-format --dry-run -Werror
    ;;
app_process)
    calls='(^|[^[:alnum:]_])(exit|quick_exit|abort|assert|printf|vprintf|puts|putchar|perror)[[:space:]]*\('
    files="$(sources cache interpose runtime/app runtime/code runtime/gpu) $(ls runtime/*.c runtime/*.h)"
    # shellcheck disable=SC2086 # names without spaces
    ! grep -nE "$calls" $files
    ;;
device_text)
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    "$nvcc" --version 2>/dev/null | grep -q 'V13\.0\.88' || skip "no nvcc 13.0.88 here, which others' text is compared with"
    made=$(mktemp)
    trap 'rm -f "$made"' EXIT
    for name in app/shadow tune/walk code/instrument; do
        runtime/device_text.sh "$name" "$nvcc" "$made" && cmp "$made" "runtime/${name}_device.inc" || {
            printf 'runtime/%s_device.inc: not made from its source as it is now: run runtime/device_text.sh %s\n' "$name" "$name"
            exit 1
        }
    done
    ;;
tidy)
    [ -e "${2:?a build folder}/compile_commands.json" ] || { printf '%s: configure it first\n' "$2" >&2; exit 1; }
    command -v clang-tidy >/dev/null || skip "no clang-tidy here"
    # one file at a time: clang-tidy 14 takes va_start for missing in the later files of one run
    sources cache interpose offline runtime | grep '\.c$' | xargs -P "$(nproc)" -n 1 clang-tidy -p "$2" --quiet
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
