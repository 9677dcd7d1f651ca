package main

// benchmarks is the table of them, in the order they run.
func benchmarks() []benchmark {
	return []benchmark{
		agentBenchmark(),
		provisionBenchmark(),
		pacedBenchmark(),
		packagesBenchmark(),
		fetchBenchmark(),
		scrubBenchmark(),
		firstBootBenchmark(),
		sizeBenchmark(),
	}
}
