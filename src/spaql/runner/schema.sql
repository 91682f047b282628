-- Tables of a store of runs; see store.py.

CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID; -- 'code': the code that computed the runs
CREATE TABLE runs (
    id TEXT PRIMARY KEY, -- hash of the specification
    specification TEXT NOT NULL, -- JSON
    scalars TEXT NOT NULL, -- JSON
    seconds REAL NOT NULL,
    digest TEXT NOT NULL -- of all columns but the seconds
);
CREATE TABLE failures (
    id TEXT PRIMARY KEY,
    specification TEXT NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), value TEXT NOT NULL); -- JSON, the last report
CREATE TABLE arrays (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL, -- .npy, deflated
    digest TEXT NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
