# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A process updates random rows of a table of 128 MiB, four a transaction, each in a page of its own. When BUFFERS pages have
# changed, another process writes them from the log to the database and makes them durable, while transactions go on. BUFFERS 0
# is without that. Under Split-Deadline the files have deadlines: on a hard disk those of the paper's section 7.1.1, on flash
# those of its Table 3. Under sluice the checkpoints have a low priority. Other schedulers get no setting.
deadlines="log_ms=0&checkpoint_ms=0" rank="-c 0"
if grep -qF '[sluice]' "$Q/scheduler"; then
	rank="-c 2 -n 7"
elif ! grep -qF '[split-deadline]' "$Q/scheduler"; then
	:
elif [ "$(cat "$Q/rotational")" = 1 ]; then
	deadlines="log_ms=100&checkpoint_ms=10000&read_ms=100"
else
	deadlines="log_ms=3&checkpoint_ms=100"
fi
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0 "$DEV" 4g
mkdir -p /tmp/mnt
mount "$DEV" /tmp/mnt

cat >/tmp/sqlite.py <<'END'
import collections, json, os, random, signal, sqlite3, subprocess, sys, time

length, seed, buffers, deadlines, rank = float(sys.argv[1]), *map(int, sys.argv[2:4]), *sys.argv[4:]
ROWS = 32768


def opened():
    db = sqlite3.connect(f"file:/tmp/mnt/db?vfs=sluice&{deadlines}", uri=True, isolation_level=None)
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("PRAGMA synchronous = FULL")
    return db


def make():
    db = sqlite3.connect("/tmp/mnt/db", isolation_level=None)
    for pragma in ("page_size = 4096", "journal_mode = OFF", "synchronous = OFF"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, pad BLOB)")
    numbers = f"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {ROWS})"
    db.execute(f"INSERT INTO t {numbers} SELECT x, 0, zeroblob(3000) FROM c")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    os.sync()


def update(ask):
    random.seed(seed)
    db, dirty, took, begin = opened(), set(), [], time.monotonic()
    while time.monotonic() < begin + length:
        rows = [random.randint(1, ROWS) for _ in range(4)]
        start = time.monotonic_ns()
        db.execute("BEGIN IMMEDIATE")
        db.executemany("UPDATE t SET n = n + 1 WHERE id = ?", [(row,) for row in rows])
        db.execute("COMMIT")
        # In steps of 10 µs.
        took.append((time.monotonic_ns() - start + 5000) // 10000 * 10000)
        dirty.update(rows)
        if buffers and len(dirty) >= buffers:
            dirty.clear()
            os.write(ask, b"x")
    return took


def checkpoint(asked, tell):
    db = opened()
    while os.read(asked, 4096):
        start = time.monotonic()
        busy, _, pages = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert not busy
        os.write(tell, f"{time.monotonic() - start} {pages}\n".encode())


def leave(took, checkpoints):
    none = {"bins": {}, "N": 0, "mean": 0, "max": 0}
    bins = {"bins": collections.Counter(took), "N": len(took), "mean": sum(took) / len(took), "max": max(took)}
    write = {"total_ios": len(took), "runtime": length * 1000, "io_bytes": 4 * 4096 * len(took)}
    write |= {"clat_ns": none, "lat_ns": none}
    job = {"jobname": "transactions", "read": {"total_ios": 0}, "write": write, "usr_cpu": 0, "sys_cpu": 0}
    job["sync"] = {"total_ios": len(took), "lat_ns": bins}
    with open("/out/fio.json", "w") as out:
        json.dump({"jobs": [job]}, out)
    pages = max((pages for _, pages in checkpoints), default=0)
    with open("/out/readings", "w") as out:
        print("checkpoints", len(checkpoints), file=out)
        print("longest_s", max((seconds for seconds, _ in checkpoints), default=0), file=out)
        print("written", pages / (os.stat("/tmp/mnt/db-wal").st_size // 4120), file=out)


loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension("/job/sluice-vfs")
make()
asked, ask = os.pipe()
told, tell = os.pipe()
child = os.fork()
if child == 0:
    os.close(ask)
    subprocess.run(["ionice", *rank.split(), "-p", str(os.getpid())], check=True)
    checkpoint(asked, tell)
took = update(ask)
os.kill(child, signal.SIGKILL)
os.close(tell)
with os.fdopen(told) as lines:
    leave(took, [tuple(map(float, line.split())) for line in lines])
END
watched python3 /tmp/sqlite.py "$RUNTIME" "$SEED" "$BUFFERS" "$deadlines" "$rank"
