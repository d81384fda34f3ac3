#!/bin/sh
# The test of look-ups with all runtimes of bring.sh: PROGRAM (lookups.c), FOLDER for them, C compiler.
folder=$(dirname "$0")
"$folder/bring.sh" "$2" "$3" || exit
"$1" "$2"/*.so
