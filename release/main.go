// Command release builds everything that a release of eksnode consists of, in
// the layout that `packer init` expects of a plugin on GitHub, and verifies it:
//
//	go run ./release -out dist
//	go run ./release -check -packer /usr/bin/packer
//
// The second builds the same for some targets only, into a folder that it
// removes, and has that packer install and use the result. Neither uses the
// network. The same commit gives the same bytes on any machine with the same
// Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(log)
	out := flags.String("out", "dist", "the folder to build into; it must be empty or missing")
	check := flags.Bool("check", false, "build some targets into a temporary folder, and use them with -packer")
	packer := flags.String("packer", "", "the packer to check with")
	tag := flags.String("tag", "", "the tag that is being released; it must be that of the version in the sources")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("reading the arguments: %q is not a flag", flags.Arg(0))
	}
	r, err := open(ctx, log)
	if err != nil {
		return err
	}
	if *check {
		if *packer == "" {
			return errors.New("reading the arguments: -check needs -packer, the program to check with")
		}
		return r.check(ctx, *packer)
	}
	if err := r.ready(ctx, *tag); err != nil {
		return err
	}
	return r.build(ctx, *out, targets())
}
