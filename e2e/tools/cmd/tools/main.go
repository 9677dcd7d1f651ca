// Command tools gets the named tools: from the cache, downloaded or built. It
// prints their paths on standard output, one a line, in the order of the names:
//
//	go run ./e2e/tools/cmd/tools packer@1.16.0 kubelet@1.36.3
//
// A name without a version means the newest version in the table. Progress goes
// to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "tools:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("tools", flag.ContinueOnError)
	flags.SetOutput(log)
	arch := flags.String("arch", runtime.GOARCH, "architecture of the node: amd64 or arm64")
	flags.Usage = func() { usage(flags, log) }
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return errors.New("no tool named")
	}
	for _, wanted := range flags.Args() {
		name, version, _ := strings.Cut(wanted, "@")
		tool, version, err := tools.Find(name, version)
		if err != nil {
			return err
		}
		target := runtime.GOARCH
		if tool.Node {
			target = *arch
		}
		path, err := tools.Build(ctx, name, version, target, log)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, path)
	}
	return nil
}

func usage(flags *flag.FlagSet, log io.Writer) {
	fmt.Fprintln(log, "usage: tools [-arch ARCH] NAME[@VERSION] …")
	for _, tool := range tools.Table() {
		fmt.Fprintf(log, "  %s@%s\n", tool.Name, strings.Join(tool.Versions, ", @"))
	}
	flags.PrintDefaults()
}
