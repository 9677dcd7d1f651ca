// Command cmd measures the scrub on many files; see package scale.
//
//	go run ./e2e/scrub/scale/cmd -eksnode bin/eksnode
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/e2e/scrub/scale"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o scale.Options
	flag.StringVar(&o.Eksnode, "eksnode", "bin/eksnode", "the eksnode command")
	flag.StringVar(&o.Agent, "agent", "", "the build that nodes carry, to measure it too")
	flag.StringVar(&o.Folder, "folder", "", "where the disks lie; /dev/shm when empty")
	flag.BoolVar(&o.WithoutSysprep, "without-sysprep", false, "leave virt-sysprep out")
	sizes := flag.String("sizes", "", "sizes as FILES:ROUNDS,…; 1 k to 1 M files when empty")
	kinds := flag.String("kinds", "", "file systems, such as ext4,xfs")
	flag.Parse()
	var err error
	if o.Eksnode, err = filepath.Abs(o.Eksnode); err != nil {
		return err
	}
	if o.Agent != "" {
		if o.Agent, err = filepath.Abs(o.Agent); err != nil {
			return err
		}
	}
	if *kinds != "" {
		o.Kinds = strings.Split(*kinds, ",")
	}
	for part := range strings.SplitSeq(*sizes, ",") {
		if part == "" {
			continue
		}
		files, rounds, found := strings.Cut(part, ":")
		size := scale.Size{Rounds: 1}
		if size.Files, err = strconv.Atoi(files); err == nil && found {
			size.Rounds, err = strconv.Atoi(rounds)
		}
		if err != nil {
			return fmt.Errorf("reading -sizes: %w", err)
		}
		o.Sizes = append(o.Sizes, size)
	}
	section, err := scale.Run(ctx, os.Stderr, o)
	if err != nil {
		return err
	}
	section.Name, section.About = "scrub", "removing many files, side by side with rm -rf and virt-sysprep"
	section.Print(os.Stdout)
	return nil
}
