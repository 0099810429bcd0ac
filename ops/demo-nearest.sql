-- The two reviews nearest to each of three, by the cosine of the vectors that sheaf embed wrote: BLOBs of little-endian float32.
-- sqlite-vec has vec_distance_cosine(); SQLite alone has no function for such a BLOB, so its items are read from the digits of hex().

CREATE TEMP TABLE items AS
WITH RECURSIVE places(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM places WHERE 4 * i + 4 < (SELECT max(length(embedding)) FROM reviews)),
digits(place, shift) AS (VALUES (7, 28), (8, 24), (5, 20), (6, 16), (3, 12), (4, 8), (1, 4), (2, 0)),
words(id, i, word) AS (
  SELECT id, i, sum((instr('0123456789ABCDEF', substr(hex(substr(embedding, 4 * i + 1, 4)), place, 1)) - 1) << shift)
  FROM reviews, places, digits GROUP BY id, i),
parts(id, i, sign, exponent, fraction) AS (SELECT id, i, 1 - (word >> 30 & 2), word >> 23 & 255, word & 8388607 FROM words)
SELECT id, i, sign * iif(exponent, (8388608 + fraction) * pow(2, exponent - 150), fraction * pow(2, -149)) AS x FROM parts;
CREATE INDEX temp.items_places ON items (i, id, x);

CREATE TEMP TABLE lengths AS SELECT id, sqrt(sum(x * x)) AS length FROM items GROUP BY id;

CREATE TEMP TABLE cosines AS
SELECT a.id AS id, b.id AS other, sum(a.x * b.x) / la.length / lb.length AS cosine
FROM items a JOIN items b USING (i) JOIN lengths la ON la.id = a.id JOIN lengths lb ON lb.id = b.id
WHERE a.id IN ('review-0002', 'review-0004', 'review-0010') AND a.id <> b.id GROUP BY a.id, b.id;

.mode box --wrap 70
SELECT asked.review, nearest.review AS nearest, round(cosine, 4) AS cosine
FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY cosine DESC) AS place FROM cosines) AS pairs
  JOIN reviews AS asked ON asked.id = pairs.id JOIN reviews AS nearest ON nearest.id = other
WHERE place <= 2 ORDER BY asked.id, place;
