# star_list.pl: a star schema of parcels, and queries of it, for bench/star and t/server/plan_invariants.pl.
#
# Returns a function.  Its argument is the size: 1 is 2.5 million parcels, 0.6 GB with the other tables and the indexes.
# It returns { tables, indexes, queries }:
#
#	tables	[ name, columns, rows, SELECT list over i of generate_series(1, rows), source ], in the order of loading;
#			source is a FROM list in place of generate_series, with :from and :to for the least and the largest i
#	indexes	what stands behind ON in CREATE INDEX
#	queries	[ name, statement ]; the rows of a statement that ends with ORDER BY, or ORDER BY and LIMIT, have one
#			order
#
# The facts grow in the order of days.  Some columns depend on each other: the country of a depot on its region, the
# quarter of a day on its year, the household of a customer on its city, gifts on December.  PostgreSQL's estimates take
# such columns for independent, and expect too few rows or too many.  Sums are of integers, so that their results do not
# depend on the order of the rows.
use strict;
use warnings;

sub star
{
	my ($size) = @_;
	my ($parcels, $pickups, $returned) = map { int($_ * $size) } 2_500_000, 800_000, 250_000;
	my ($items, $customers, $households) = map { int($_ * $size) || 1 } 18_000, 200_000, 300_000;

	# days of 1950 to 2059; those of the facts are 2014 to 2021
	my @tables = (
		[ 'day', 'id int PRIMARY KEY, at date, yr int, qtr text, moy int, dom int, dow int, week int, pad text', 40_000,
			"i - 1, d, extract(year FROM d), to_char(d, 'YYYY\"Q\"Q'), extract(month FROM d), extract(day FROM d), "
			  . "extract(isodow FROM d), (i - 1) / 7, repeat('d', 80)",
			"(SELECT i, date '1950-01-01' + i - 1 AS d FROM generate_series(:from, :to) i) g" ],
		[ 'depot', 'id int PRIMARY KEY, name text, region text, country text, opened int, pad text', 300,
			"i, 'depot ' || i, 'region ' || i % 8, 'country ' || i % 40, 10000 + i * 37, repeat('p', 60)" ],
		[ 'item', 'id int PRIMARY KEY, name text, category text, class text, brand text, price int, pad text', $items,
			"i, 'item ' || i, (ARRAY['Gifts', 'Books', 'Tools', 'Music', 'Shoes', 'Toys', 'Tea', 'Lamps', 'Paper', "
			  . "'Wool'])[1 + i % 10], 'class ' || i % 90, 'brand ' || i % 700, 100 + (i * 7919) % 9900, "
			  . "repeat('i', 200)" ],
		[ 'household', 'id int PRIMARY KEY, income int, persons int, cars int, town int, wants text', $households,
			"i, i % 20, 1 + i % 7, (i % 20) / 5, i % 500, (ARRAY['much', 'little', 'nothing', 'unknown'])[1 + i % 4]" ],
		[ 'customer', 'id int PRIMARY KEY, name text, segment text, city text, born int, household_id int, pad text',
			$customers, "i, 'customer ' || i, 'segment ' || i % 5, 'city ' || i % 500, 1930 + (i * 31) % 75, "
			  . "1 + i % $households, repeat('c', 60)" ],
		[ 'promo', 'id int PRIMARY KEY, name text, channel text', 400, "i, 'promo ' || i, 'channel ' || i % 4" ],
		[ 'embargo', 'country text, since int', 0, "'', i" ],
		[ 'parcel', 'id int PRIMARY KEY, day_id int, item_id int, customer_id int, household_id int, depot_id int, '
			. 'promo_id int, pieces int, price int, cost int, status text, note text', $parcels,
			"i, day, CASE WHEN day % 365 > 315 AND i % 3 > 0 THEN greatest(item / 10 * 10, 1) ELSE item END, customer, "
			  . "1 + customer % $households, 1 + customer % 300, CASE WHEN i % 5 = 0 THEN 1 + i % 400 END, 1 + i % 9, "
			  . "price, price * 7 / 10 + i % 50, (ARRAY['delivered', 'on the way', 'lost'])[1 + (i % 50 > 40)::int + "
			  . "(i % 50 > 48)::int], md5(i::text)",
			"(SELECT i, 23376 + (2922::int8 * (i - 1) / $parcels)::int AS day, 1 + floor(random() ^ 2 * $items)::int "
			  . "AS item, 1 + floor(random() ^ 3 * $customers)::int AS customer, 100 + (random() * 9900)::int AS price "
			  . "FROM generate_series(:from, :to) i OFFSET 0) g" ],
		[ 'pickup', 'id int PRIMARY KEY, day_id int, item_id int, customer_id int, depot_id int, pieces int, '
			. 'price int, note text', $pickups,
			"i, 23376 + (2922::int8 * (i - 1) / $pickups)::int, 1 + floor(random() * $items)::int, 1 + floor(random() "
			  . "^ 2 * $customers)::int, 1 + i % 300, 1 + i % 5, 100 + (i * 7919::int8 % 9900)::int, md5(i::text)" ],
		[ 'returned', 'parcel_id int, day_id int, item_id int, customer_id int, reason int, paid int', $returned,
			'id, day_id + 1 + id % 40, item_id, customer_id, id % 35, price / 2',
			'(SELECT * FROM parcel WHERE id % 10 = 0 AND id BETWEEN :from * 10 AND :to * 10) g' ]);
	my @indexes = ('parcel (day_id)', 'parcel (customer_id)', 'pickup (day_id)', 'returned (parcel_id)');

	my @queries = (
		[ item_names => <<SQL ],
SELECT i.name, avg(p.price), count(*)
FROM parcel p JOIN day d ON d.id = p.day_id JOIN household h ON h.id = p.household_id JOIN item i ON i.id = p.item_id
WHERE d.yr = 2018 AND h.income = 7 AND h.persons = 3 AND h.cars = 1
GROUP BY i.name ORDER BY i.name LIMIT 100
SQL
		[ name_patterns => <<SQL ],
SELECT regexp_replace(c.name, '[0-9]{3}\$', ''), count(*), sum(p.price)
FROM parcel p JOIN customer c ON c.id = p.customer_id WHERE p.status = 'delivered'
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 100
SQL
		[ best_of_category => <<SQL ],
SELECT * FROM (
	SELECT i.category, i.brand, sum(p.price), rank() OVER (PARTITION BY i.category ORDER BY sum(p.price) DESC) AS place
	FROM parcel p JOIN item i ON i.id = p.item_id JOIN day d ON d.id = p.day_id
	WHERE d.yr IN (2016, 2017) GROUP BY i.category, i.brand) s
WHERE place <= 10 ORDER BY category, place, brand
SQL
		[ share_of_class => <<SQL ],
SELECT i.category, i.class, i.name, sum(p.price), sum(p.price) * 100 / sum(sum(p.price)) OVER (PARTITION BY i.class)
FROM parcel p JOIN item i ON i.id = p.item_id JOIN day d ON d.id = p.day_id
WHERE i.category IN ('Tea', 'Wool', 'Tools') AND d.at BETWEEN '2019-02-01' AND '2019-03-03'
GROUP BY i.category, i.class, i.name ORDER BY i.category, i.class, i.name LIMIT 100
SQL
		[ months_of_depots => <<SQL ],
SELECT * FROM (
	SELECT t.name, d.yr, d.moy, sum(p.price) AS total, avg(sum(p.price)) OVER (PARTITION BY t.name, d.yr) AS mean,
		lag(sum(p.price)) OVER w AS before, lead(sum(p.price)) OVER w AS after
	FROM parcel p JOIN depot t ON t.id = p.depot_id JOIN day d ON d.id = p.day_id
	WHERE d.yr BETWEEN 2015 AND 2017 GROUP BY t.name, d.yr, d.moy
	WINDOW w AS (PARTITION BY t.name ORDER BY d.yr, d.moy)) s
WHERE abs(total - mean) * 10 > mean ORDER BY total - mean, name, yr, moy LIMIT 100
SQL
		[ both_channels => <<SQL ],
SELECT count(*) FROM (
	SELECT customer_id, day_id FROM parcel UNION SELECT customer_id, day_id FROM pickup) s
SQL
		[ common_customers => <<SQL ],
SELECT count(*) FROM (
	SELECT c.name, d.at FROM parcel p JOIN customer c ON c.id = p.customer_id JOIN day d ON d.id = p.day_id
	WHERE d.yr = 2017
	INTERSECT
	SELECT c.name, d.at FROM pickup p JOIN customer c ON c.id = p.customer_id JOIN day d ON d.id = p.day_id
	WHERE d.yr = 2017) s
SQL
		[ only_by_parcel => <<SQL ],
SELECT item_id, customer_id FROM parcel WHERE day_id BETWEEN 24000 AND 24400
EXCEPT
SELECT item_id, customer_id FROM pickup ORDER BY 1, 2 LIMIT 100
SQL
		[ all_of_a_union => <<SQL ],
SELECT category, yr, count(*), sum(s.price) FROM (
	SELECT item_id, day_id, price FROM parcel WHERE promo_id IS NULL
	UNION ALL SELECT item_id, day_id, price FROM pickup
	UNION ALL SELECT item_id, day_id, -paid FROM returned) s
JOIN item i ON i.id = item_id JOIN day d ON d.id = day_id
GROUP BY category, yr ORDER BY category, yr
SQL
		[ returns_above_the_mean => <<SQL ],
WITH r AS (
	SELECT c.id, c.city, sum(r.paid) AS paid FROM returned r JOIN customer c ON c.id = r.customer_id
	JOIN day d ON d.id = r.day_id WHERE d.yr = 2018 GROUP BY c.id, c.city)
SELECT c.name FROM r JOIN customer c ON c.id = r.id
JOIN (SELECT city, avg(paid) * 1.2 AS bound FROM r GROUP BY city) m ON m.city = r.city
WHERE r.paid > m.bound AND c.segment = 'segment 3' ORDER BY c.name LIMIT 100
SQL
		[ customers_of_channels => <<SQL ],
SELECT h.income, h.persons, count(*), max(c.born), min(c.born)
FROM customer c JOIN household h ON h.id = c.household_id
WHERE EXISTS (SELECT FROM parcel p JOIN day d ON d.id = p.day_id
		WHERE p.customer_id = c.id AND d.yr = 2016 AND d.moy < 4)
	AND (c.id IN (SELECT customer_id FROM pickup p JOIN day d ON d.id = p.day_id WHERE d.yr = 2016 AND d.moy < 4)
		OR c.id IN (SELECT customer_id FROM returned))
GROUP BY h.income, h.persons ORDER BY h.income, h.persons
SQL
		[ items_of_few_customers => <<SQL ],
SELECT p.item_id, count(*) FROM pickup p
WHERE p.customer_id IN (SELECT customer_id FROM parcel WHERE status = 'lost' AND price > 9000)
	AND p.item_id IN (SELECT id FROM item WHERE category = 'Shoes')
GROUP BY p.item_id ORDER BY 2 DESC, 1 LIMIT 50
SQL
		[ never_returned => <<SQL ],
SELECT t.country, count(DISTINCT p.customer_id), sum(p.price)
FROM parcel p JOIN depot t ON t.id = p.depot_id JOIN day d ON d.id = p.day_id
WHERE d.qtr = '2017Q3' AND NOT EXISTS (SELECT FROM returned r WHERE r.parcel_id = p.id)
GROUP BY t.country ORDER BY t.country
SQL
		[ never_picked_up => <<SQL ],
SELECT count(*), sum(c.born) FROM customer c
WHERE NOT EXISTS (SELECT FROM pickup p WHERE p.customer_id = c.id AND p.price > 200)
	AND EXISTS (SELECT FROM parcel p WHERE p.customer_id = c.id)
SQL
		[ three_facts => <<SQL ],
SELECT i.name, t.name, count(*), sum(p.price), sum(r.paid), sum(u.price)
FROM parcel p JOIN returned r ON r.parcel_id = p.id
JOIN pickup u ON u.customer_id = r.customer_id AND u.day_id BETWEEN r.day_id AND r.day_id + 90
JOIN item i ON i.id = p.item_id JOIN depot t ON t.id = u.depot_id JOIN day d ON d.id = p.day_id
WHERE d.yr = 2018 AND d.moy BETWEEN 4 AND 10
GROUP BY i.name, t.name ORDER BY i.name, t.name LIMIT 100
SQL
		[ rollup_of_items => <<SQL ],
SELECT i.category, i.class, i.brand, sum(p.price), count(*)
FROM parcel p JOIN item i ON i.id = p.item_id JOIN day d ON d.id = p.day_id
WHERE d.week BETWEEN 3500 AND 3530 GROUP BY ROLLUP (i.category, i.class, i.brand)
ORDER BY i.category, i.class, i.brand LIMIT 100
SQL
		[ ranked_rollup => <<SQL ],
SELECT * FROM (
	SELECT t.region, t.country, d.yr, sum(p.price - p.cost) AS gain, grouping(t.region, t.country, d.yr) AS level,
		rank() OVER (PARTITION BY grouping(t.region, t.country, d.yr) ORDER BY sum(p.price - p.cost) DESC) AS place
	FROM parcel p JOIN depot t ON t.id = p.depot_id JOIN day d ON d.id = p.day_id
	GROUP BY ROLLUP (t.region, t.country, d.yr)) s
WHERE place <= 20 ORDER BY level, place, region, country, yr
SQL
		[ cube => <<SQL ],
SELECT i.category, t.region, d.dow, count(*), count(DISTINCT p.customer_id)
FROM pickup p JOIN item i ON i.id = p.item_id JOIN depot t ON t.id = p.depot_id JOIN day d ON d.id = p.day_id
WHERE d.yr = 2020 GROUP BY CUBE (i.category, t.region, d.dow)
ORDER BY i.category, t.region, d.dow LIMIT 200
SQL
		[ customers_a_month => <<SQL ],
SELECT d.yr, d.moy, count(DISTINCT p.customer_id), count(DISTINCT p.item_id)
FROM parcel p JOIN day d ON d.id = p.day_id GROUP BY d.yr, d.moy ORDER BY d.yr, d.moy
SQL
		[ distinct_pairs => <<SQL ],
SELECT DISTINCT p.customer_id, i.class FROM parcel p JOIN item i ON i.id = p.item_id
WHERE p.day_id % 365 > 330 ORDER BY 1, 2 LIMIT 1000
SQL
		[ many_groups => <<SQL ],
SELECT count(*), max(n), max(s) FROM (
	SELECT customer_id, day_id, count(*) AS n, sum(price) AS s FROM parcel GROUP BY customer_id, day_id) s
SQL
		[ empty_dimension => <<SQL ],
SELECT i.name, t.name, p.id, p.price FROM parcel p JOIN depot t ON t.id = p.depot_id
JOIN embargo e ON e.country = t.country AND p.day_id > e.since JOIN item i ON i.id = p.item_id
ORDER BY p.price DESC, p.id
SQL
		[ no_such_country => <<SQL ],
SELECT c.city, count(*), sum(p.price), sum(sum(p.price)) OVER (ORDER BY c.city)
FROM parcel p JOIN depot t ON t.id = p.depot_id JOIN customer c ON c.id = p.customer_id
JOIN household h ON h.id = c.household_id
WHERE t.country = 'country 50' GROUP BY c.city ORDER BY c.city
SQL
		[ gifts_of_december => <<SQL ],
SELECT i.name, c.city, count(*), sum(p.price)
FROM parcel p JOIN day d ON d.id = p.day_id JOIN item i ON i.id = p.item_id JOIN customer c ON c.id = p.customer_id
JOIN pickup u ON u.customer_id = p.customer_id AND u.item_id % 100 = p.item_id % 100
WHERE d.yr = 2019 AND d.qtr = '2019Q4' AND d.moy = 12 AND i.category = 'Gifts'
GROUP BY i.name, c.city ORDER BY 3 DESC, 1, 2 LIMIT 100
SQL
		[ rich_households => <<SQL ],
SELECT c.id, c.name, h.wants, count(*), sum(p.price)
FROM parcel p JOIN customer c ON c.id = p.customer_id JOIN household h ON h.id = c.household_id
WHERE h.income >= 15 AND h.cars = 3 AND c.segment = 'segment 1'
GROUP BY c.id, c.name, h.wants ORDER BY 5 DESC, 1 LIMIT 100
SQL
		[ latest_parcels => <<SQL ],
SELECT p.id, d.at, i.name, c.name, t.name FROM parcel p JOIN day d ON d.id = p.day_id
JOIN item i ON i.id = p.item_id JOIN customer c ON c.id = p.customer_id JOIN depot t ON t.id = p.depot_id
ORDER BY d.at DESC, p.id DESC LIMIT 100
SQL
		[ growing_customers => <<SQL ],
WITH y AS (
	SELECT 'parcel' AS channel, customer_id, d.yr, sum(price) AS total
	FROM parcel p JOIN day d ON d.id = p.day_id WHERE d.yr IN (2017, 2018) GROUP BY customer_id, d.yr
	UNION ALL
	SELECT 'pickup', customer_id, d.yr, sum(price)
	FROM pickup p JOIN day d ON d.id = p.day_id WHERE d.yr IN (2017, 2018) GROUP BY customer_id, d.yr),
t AS (
	SELECT customer_id, max(total) FILTER (WHERE channel = 'parcel' AND yr = 2017) AS a,
		max(total) FILTER (WHERE channel = 'parcel' AND yr = 2018) AS b,
		max(total) FILTER (WHERE channel = 'pickup' AND yr = 2017) AS e,
		max(total) FILTER (WHERE channel = 'pickup' AND yr = 2018) AS f
	FROM y GROUP BY customer_id)
SELECT c.name, t.* FROM t JOIN customer c ON c.id = customer_id
	JOIN (SELECT customer_id, max(paid) AS paid FROM returned GROUP BY customer_id) r USING (customer_id)
WHERE b * e > a * f AND r.paid < a
ORDER BY c.name LIMIT 100
SQL
		[ running_totals => <<SQL ],
WITH a AS (SELECT item_id, day_id, sum(sum(price)) OVER (PARTITION BY item_id ORDER BY day_id) AS total
	FROM parcel WHERE day_id BETWEEN 25000 AND 25200 GROUP BY item_id, day_id),
b AS (SELECT item_id, day_id, sum(sum(price)) OVER (PARTITION BY item_id ORDER BY day_id) AS total
	FROM pickup WHERE day_id BETWEEN 25000 AND 25200 GROUP BY item_id, day_id)
SELECT * FROM (
	SELECT item_id, day_id, max(a.total) OVER w AS parcels, max(b.total) OVER w AS pickups
	FROM a FULL JOIN b USING (item_id, day_id) WINDOW w AS (PARTITION BY item_id ORDER BY day_id)) s
WHERE pickups > parcels ORDER BY item_id, day_id LIMIT 100
SQL
		[ medians => <<SQL ],
SELECT i.category, percentile_disc(0.5) WITHIN GROUP (ORDER BY p.price), percentile_disc(0.99) WITHIN GROUP (ORDER BY
	p.cost), count(*)
FROM parcel p JOIN item i ON i.id = p.item_id GROUP BY i.category ORDER BY i.category
SQL
		[ ordered_lists => <<SQL ],
SELECT c.city, string_agg(c.name, ',' ORDER BY c.name), array_agg(DISTINCT h.town)
FROM customer c JOIN household h ON h.id = c.household_id WHERE h.wants = 'much' AND c.born > 1990
GROUP BY c.city ORDER BY c.city
SQL
		[ first_parcels => <<SQL ],
SELECT count(*), sum(price), max(day_id) FROM (
	SELECT DISTINCT ON (customer_id) customer_id, day_id, price FROM parcel ORDER BY customer_id, day_id, id) s
SQL
		[ third_parcels => <<SQL ],
SELECT segment, count(*), sum(price) FROM (
	SELECT c.segment, p.price, row_number() OVER (PARTITION BY p.customer_id ORDER BY p.day_id, p.id) AS n
	FROM parcel p JOIN customer c ON c.id = p.customer_id WHERE p.status <> 'lost') s
WHERE n = 3 GROUP BY segment ORDER BY segment
SQL
		[ weeks_of_depots => <<SQL ],
WITH w AS (
	SELECT p.depot_id, d.week, sum(p.price) FILTER (WHERE d.dow = 1) AS monday, sum(p.price) FILTER (WHERE d.dow = 5) AS
		friday, sum(p.price) FILTER (WHERE d.dow > 5) AS weekend
	FROM parcel p JOIN day d ON d.id = p.day_id GROUP BY p.depot_id, d.week)
SELECT t.name, a.week, a.monday - b.monday, a.friday - b.friday, a.weekend - b.weekend
FROM w a JOIN w b ON b.depot_id = a.depot_id AND b.week = a.week - 52 JOIN depot t ON t.id = a.depot_id
WHERE a.week BETWEEN 3550 AND 3570 ORDER BY t.name, a.week LIMIT 100
SQL
		[ large_dimensions => <<SQL ],
SELECT h.income, h.wants, c.segment, count(*), sum(p.price - p.cost)
FROM parcel p JOIN customer c ON c.id = p.customer_id JOIN household h ON h.id = p.household_id
GROUP BY h.income, h.wants, c.segment ORDER BY h.income, h.wants, c.segment
SQL
		[ busy_customers => <<SQL ],
SELECT c.name, n FROM (
	SELECT p.customer_id, p.promo_id, count(*) AS n FROM parcel p JOIN promo o ON o.id = p.promo_id
	JOIN day d ON d.id = p.day_id JOIN household h ON h.id = p.household_id
	WHERE (d.dom < 4 OR d.dom BETWEEN 25 AND 28) AND h.wants IN ('much', 'unknown') AND o.channel = 'channel 1'
	GROUP BY p.customer_id, p.promo_id HAVING count(*) BETWEEN 2 AND 6) s
JOIN customer c ON c.id = customer_id ORDER BY c.name, n, promo_id LIMIT 200
SQL
		[ reasons => <<SQL ],
SELECT r.reason, c.city, count(*), sum(p.price - r.paid)
FROM returned r JOIN parcel p ON p.id = r.parcel_id JOIN customer c ON c.id = p.customer_id
JOIN household h ON h.id = c.household_id JOIN day d ON d.id = r.day_id
WHERE h.income = 3 AND h.cars = 0 AND c.city = 'city 103' AND d.yr > 2015
GROUP BY r.reason, c.city ORDER BY r.reason, c.city
SQL
		[ page_of_parcels => <<SQL ],
SELECT p.id, p.customer_id, p.price, p.note FROM parcel p JOIN item i ON i.id = p.item_id
WHERE i.category <> 'Paper' ORDER BY p.price DESC, p.id LIMIT 50 OFFSET 20000
SQL
		[ counts => <<SQL ]);
SELECT (SELECT count(*) FROM (SELECT DISTINCT customer_id FROM parcel WHERE pieces < 3) s),
	(SELECT count(*) FROM (SELECT item_id FROM pickup GROUP BY item_id HAVING count(*) > 40) s),
	(SELECT count(*) FROM (SELECT DISTINCT customer_id, reason FROM returned) s),
	(SELECT max(n) FROM (SELECT count(*) AS n FROM parcel GROUP BY note HAVING min(price) < 200) s)
SQL
	return { tables => \@tables, indexes => \@indexes, queries => \@queries };
}

# The statements that make the tables.  The option stale tells what PostgreSQL's statistics do not know: "rows": the
# last two fifths of the facts; "distinct": how many values the columns that the facts are joined by have.
sub star_statements
{
	my ($star, $stale) = @_;
	my (@sql, @late);

	push @sql, 'SELECT setseed(0.25)';
	for (@{ $star->{tables} })
	{
		my ($name, $columns, $rows, $list, $from) = @$_;
		my $fact = $columns =~ /\bday_id\b/;
		my $first = $fact && $stale eq 'rows' ? int($rows * 0.6) : $rows;
		my $part = sub {
			my %at = (from => $_[0], to => $_[1]);
			"INSERT INTO $name SELECT $list FROM "
			  . (($from // 'generate_series(:from, :to) i') =~ s/:(from|to)\b/$at{$1}/gr);
		};

		push @sql, "CREATE TABLE $name ($columns) WITH (autovacuum_enabled = off)", $part->(1, $first);
		push @late, $part->($first + 1, $rows) if $first < $rows;
		push @sql, map { "ALTER TABLE $name ALTER $_ SET (n_distinct = 200)" } $columns =~ /\b(customer_id|item_id)\b/g
		  if $fact && $stale eq 'distinct';
	}
	push @sql, map { "CREATE INDEX ON $_" } @{ $star->{indexes} };
	# VACUUM would correct the number of rows
	return (@sql, @late ? ('ANALYZE', @late) : ('VACUUM (ANALYZE, FREEZE)'));
}

return { star => \&star, statements => \&star_statements };
