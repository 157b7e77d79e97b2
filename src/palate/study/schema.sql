-- `raters` keeps the names of who was deleted, so that nobody else is given one; of them no more.
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE raters (
  rater TEXT PRIMARY KEY,
  place INTEGER NOT NULL,
  token TEXT UNIQUE,  -- its SHA-256
  arrived INTEGER NOT NULL DEFAULT 0,  -- without a personal link, so an abandoned place is given on
  seen REAL NOT NULL DEFAULT 0,
  consented INTEGER NOT NULL DEFAULT 0,
  traits TEXT NOT NULL DEFAULT 'null',
  practice INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0,  -- a collection has nothing more to ask
  closed INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE entries (
  rater TEXT NOT NULL,
  position INTEGER NOT NULL,
  item TEXT NOT NULL,
  swapped INTEGER NOT NULL,
  again INTEGER NOT NULL,
  answer TEXT,  -- JSON of an AnswerRow; what plan and gold say is added when it is read
  PRIMARY KEY (rater, position)
);
CREATE TABLE changes (
  rater TEXT NOT NULL,
  position INTEGER NOT NULL,
  answer TEXT NOT NULL  -- what stood there before, with its date
);
