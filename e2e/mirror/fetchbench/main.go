// Command fetchbench measures what fetching, verifying and unpacking assets
// costs with package artifact, against curl, sha256sum and tar one after the
// other, from a mirror on this machine with the latency and the speed of a
// line:
//
//	go run ./e2e/mirror/fetchbench -rounds 5
//
// It prints medians, and as JSON with -json. Contestants take turns; each runs
// as a process of its own, so that its processor time and memory are its alone.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rounds := flag.Int("rounds", 3, "how often each contestant runs")
	asJSON := flag.Bool("json", false, "print the result as JSON")
	install := flag.String("install", "", "be the contestant: install from the mirror with this address")
	into := flag.String("into", "", "the contestant's folder")
	flag.Parse()
	var err error
	if *install != "" {
		err = installAll(ctx, *install, *into)
	} else {
		err = race(ctx, *rounds, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetchbench:", err)
		os.Exit(1)
	}
}

func race(ctx context.Context, rounds int, asJSON bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	result, err := Measure(ctx, self, rounds)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(result)
	}
	fmt.Print(result)
	return nil
}
