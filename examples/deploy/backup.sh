#!/bin/sh
# Backs up a service with SQLite while it works: backup.sh FOLDER DESTINATION (docs/deployment.md says why like this).
#
# FOLDER is the `folder` of the service, with everything in it. DESTINATION is made, and holds confidential data from
# then on: it is for nobody else, and belongs on an encrypted disk. PYTHON=... names another Python with odsynth.
set -eu
umask 077
folder=$1 destination=$2
python=${PYTHON:-/opt/odsynth/bin/python}
mkdir "$destination"                  # fails if it is there: nothing is overwritten

copy_database() {                     # a consistent state, also while somebody writes; prints whose format it is
    mkdir -p "$(dirname "$destination/databases/$1")"
    "$python" - "$folder/$1" "$destination/databases/$1" <<'END'
import pathlib, sqlite3, sys
from contextlib import closing
source = pathlib.Path(sys.argv[1]).resolve().as_uri()
with closing(sqlite3.connect(f"{source}?mode=ro", uri=True)) as database:
    database.execute("VACUUM INTO ?", (sys.argv[2],))
    print(database.execute("PRAGMA application_id").fetchone()[0])
END
}

# Databases are known by their first bytes, whatever they are called.
databases() {
    (cd "$folder" && find . -name cache -prune -o -type f ! -path ./service.sqlite -exec sh -c '
        for file; do
            if [ "$(head -c 15 "$file" | tr -d "\0")" = "SQLite format 3" ]; then printf "%s\n" "$file"; fi
        done' sh {} +)
}
databases > "$destination/databases.txt"

# 1. The service's own records first: a run that they say is finished then has its files in the copy.
if [ -e "$folder/service.sqlite" ]; then copy_database service.sqlite >/dev/null; fi

# 2. Files, but not what can be made again (cache), nor runs that are at work: their folders hold the homes and the key
#    of their draws, which are destroyed when they end and must not live on in a backup. 1: a log grew meanwhile.
sed 'p; s/$/-wal/p; s/-wal$/-shm/' "$destination/databases.txt" > "$destination/left-out.txt"
tar --create --file="$destination/files.tar" --directory="$folder" --exclude='./cache' --exclude='./session.key' \
    --exclude='.*.unfinished*' --exclude='./service.sqlite*' --anchored --no-wildcards \
    --exclude-from="$destination/left-out.txt" . || [ $? -eq 1 ]
rm "$destination/left-out.txt"

# 3. The ledgers last: what is in the copy of the files has been paid for in the copy of the ledger.
while IFS= read -r database; do
    kind=$(copy_database "$database")
    if [ "$kind" = 1868854124 ]; then           # a ledger's; another database may be an input
        "$python" -m pipelines.cli ledger verify "$destination/databases/$database"
    fi
done < "$destination/databases.txt"
