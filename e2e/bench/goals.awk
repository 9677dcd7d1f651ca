# Prints the figures that have a goal as a table, from the output of
# go test -bench.
/^Benchmark/ {
	delete figure
	for (i = 3; i < NF; i += 2) figure[$(i + 1)] = $i
	for (i = 4; i <= NF; i += 2) if ($i "-goal" in figure)
		rows[++n] = sprintf("%-24s %-24s %8s %8s  %s", substr($1, 10), $i, figure[$i "-goal"], figure[$i], figure[$i] + 0 <= figure[$i "-goal"] + 0 ? "met" : "MISSED")
}
END {
	printf "%-24s %-24s %8s %8s\n", "benchmark", "figure", "goal", "measured"
	for (i = 1; i <= n; i++) print rows[i]
}
