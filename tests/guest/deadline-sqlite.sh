# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# contrib: sqlite
# dmesg: I/O error
# SQLite's extension: while a database in WAL mode is open, its log and the database have their deadlines. Where they can't
# be had, SQLite's log says why, and the database works as without. Each checkpoint makes the database durable, or fails.
. ./lib.sh

trace=/sys/kernel/tracing

# opened(OPTIONS): a connection. insert(DB), checkpoint(DB). said: what SQLite has logged of the extension.
cat >/tmp/db.py <<'end'
import ctypes, os, sqlite3

said = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def log(_, code, text):
    if text.startswith(b"sluice-vfs"):
        said.append(text.decode())


def opened(options):
    db = sqlite3.connect(f"file:/tmp/mnt/db?vfs=sluice{options}", uri=True, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    return db


def insert(db):
    db.execute("INSERT INTO t VALUES (1)")


def checkpoint(db):
    busy, frames, done = db.execute("PRAGMA wal_checkpoint").fetchone()
    assert not busy and frames == done, (busy, frames, done)


def refused(options):
    try:
        opened(options)
    except sqlite3.OperationalError:
        return said.pop(0)


assert ctypes.CDLL("libsqlite3.so.0").sqlite3_config(16, log, None) == 0
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
for _ in range(2):
    loader.load_extension("/job/sluice-vfs")
end

# expect_deadlines TEXT CODE [COMMAND…]: run Python code, by COMMAND; its fsyncs have the deadlines TEXT, in ms, each said once
# as long as it stays. 100 is the scheduler's own, which also an fsync of the directory has: one follows the first of a log. The
# process ends without closing what it has opened.
expect_deadlines() {
	want=$1 code=$2
	shift 2
	echo >$trace/trace
	PYTHONPATH=/tmp "$@" python3 -c "from db import *; $code; os._exit(0)" || fail "$code"
	got=$(sed -n 's/.* deadline=\([0-9]*\).*/\1/p' $trace/trace | uniq | awk '{ printf "%s%g", n++ ? " " : "", $1 / 1000000 }')
	[ "$got" = "$want" ] || fail "$code: deadlines are $got, not $want"
}

disk ssd
file_system
chmod 777 /tmp/mnt
python3 -c 'import sqlite3; db = sqlite3.connect("/tmp/mnt/db"); db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE t (x)")
db.execute("INSERT INTO t VALUES (zeroblob(1000000))")
db.commit()'
chmod 666 /tmp/mnt/db

# Without the module the database works, and the log says what to do.
PYTHONPATH=/tmp python3 -c 'from db import *
db = opened(""); insert(db); checkpoint(db)
assert [text.split(": ", 1)[1] for text in said] == [
    "no deadline: /dev/sluice: No such file or directory; next: modprobe split-deadline, and let the program see /dev; "
    f"/tmp/mnt/db{end}" for end in ("-wal", "")
], said
os._exit(0)' || fail "without the module"

scheduler split-deadline
echo 1 >$trace/events/sluice/deadline_fsync/enable
options="&log_ms=5&checkpoint_ms=700"
expect_deadlines "5 100 5 700" "db = opened('$options'); insert(db); checkpoint(db); assert not said, said"
expect_deadlines "100 10000" 'db = opened(""); insert(db); checkpoint(db)'
expect_deadlines "100 700" "db = opened('&log_ms=0&checkpoint_ms=700'); insert(db); checkpoint(db)"
expect_deadlines "5 100 5 100" "db = opened('&log_ms=5&checkpoint_ms=0'); insert(db); checkpoint(db)"
# With a rollback journal a transaction waits for both files: neither has a deadline. One that is opened again in WAL mode has.
expect_deadlines "5 100 5 700 100 5 100 5" "db = opened('$options'); insert(db); db.execute('PRAGMA journal_mode = DELETE')
db.execute('PRAGMA user_version = 1'); insert(db); db.execute('PRAGMA journal_mode = WAL'); insert(db)"
# Another connection has deadlines of its own. Its end doesn't end the first one's; a third one gets its descriptor.
expect_deadlines "5 100 7 100 5 700 6 100 6 800" "db = opened('$options'); insert(db)
other = opened('&log_ms=7&checkpoint_ms=900'); insert(other); other.close(); insert(db); checkpoint(db)
third = opened('&log_ms=6&checkpoint_ms=800'); insert(third); checkpoint(third); assert not said, said"
# A checkpoint beside which a transaction reads ends before the log does: the database is synced all the same.
expect_deadlines "5 100 5 700" "db = opened('$options'); reader = opened('$options'); insert(db)
reader.execute('BEGIN'); reader.execute('SELECT x FROM t').fetchone(); insert(db)
busy, frames, done = db.execute('PRAGMA wal_checkpoint').fetchone(); assert done < frames, (frames, done)"
# Where the database can't be written, the checkpoint fails, and the log isn't used again. The log's flush is the first command.
# A write of the database or its flush is the third, which fails; an fsync after that would not.
expect_deadlines "5 100 5 700 5" "db = opened('$options'); insert(db); os.sync()
def fail_every(count): open('/sys/kernel/config/simdisk/d0/fail_every', 'w').write(f'{count}')
fail_every(3)
try: checkpoint(db)
except sqlite3.OperationalError as error: assert str(error) == 'disk I/O error', error
else: assert not 'success'
fail_every(0)
before = os.stat('/tmp/mnt/db-wal').st_size; insert(db); assert os.stat('/tmp/mnt/db-wal').st_size > before"
# A connection that only reads calls no fsync, and has no complaint.
expect_deadlines "" "db = opened('&mode=ro'); db.execute('SELECT x FROM t').fetchone(); assert not said, said"
# Reads have one if that is asked for.
echo 1 >$trace/events/sluice/deadline_read/enable
echo >$trace/trace
PYTHONPATH=/tmp python3 -c 'from db import *
db = opened("&read_ms=3"); insert(db); os.sync(); open("/proc/sys/vm/drop_caches", "w").write("1")
assert len(db.execute("SELECT x FROM t").fetchone()[0]) == 1000000'
grep "deadline_read: .* deadline=3000000$" $trace/trace >/dev/null || fail "a read has no deadline: $(cat $trace/trace)"
echo 0 >$trace/events/sluice/deadline_read/enable

# Without CAP_SYS_NICE a deadline isn't shorter than the cgroup's, and reads have none: the database has no deadline then.
cat >/tmp/as_nobody <<'end'
#!/bin/sh
exec setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
end
chmod +x /tmp/as_nobody
rm -f /tmp/mnt/db-*
expect_deadlines "100 700" "db = opened('$options'); insert(db); checkpoint(db); assert not said, said" /tmp/as_nobody
expect_deadlines "100" "db = opened('$options&read_ms=3'); insert(db); checkpoint(db); assert said == [
'sluice-vfs: no deadline: /dev/sluice: Operation not permitted; '
'next: leave out read_ms, or run the program with CAP_SYS_NICE; /tmp/mnt/db'], said" /tmp/as_nobody
chmod 600 /dev/sluice
expect_deadlines "100" "db = opened('$options'); insert(db); checkpoint(db); assert said[0] == (
'sluice-vfs: no deadline: /dev/sluice: Permission denied; next: let the program open /dev/sluice; /tmp/mnt/db-wal'), said" /tmp/as_nobody
chmod 666 /dev/sluice

# What isn't a number of ms is refused.
PYTHONPATH=/tmp python3 -c 'from db import *
for name in ("log_ms", "checkpoint_ms", "read_ms"):
    for value in ("", "x", "5x", "-1", "60001", "1e3", "99999999999999999999"):
        text = refused(f"&{name}={value}")
        assert text == f"sluice-vfs: {name}={value}; next: give 0 to 60000 ms", text' || fail "bad values"

umount /tmp/mnt
echo none >"$Q/scheduler"
rmmod split-deadline split
