// Command image is the project's main job without an AWS account: it makes a
// base system, boots it as a real machine, runs a real packer build of
// examples/local on it, captures the scrubbed machine as a disk image, audits
// the image, and starts two machines from it to prove that they are new.
//
// Run it by make image. It needs root, and installs what else it needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// job is one run.
type job struct {
	kind      machine.Kind
	packer    string // packer's version
	eksnode   string // the command, for the audit
	plugin    string // the plugin's binary
	template  string // folder of the example
	kubelet   string // Kubernetes version
	image     string // the image to make
	reports   string // folder for the reports
	suite     string // Debian's release; the harness's usual one when empty
	proved    bool   // also audit the image and start machines from it
	log       io.Writer
	started   time.Time
	temporary string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	j := job{log: os.Stderr, started: time.Now()}
	_, usual, err := tools.Find(tools.NameKubelet, "")
	if err != nil {
		panic(err) // the table has it
	}
	kind := flag.String("machine", string(machine.Nspawn), "what to build on: nspawn or qemu")
	flag.StringVar(&j.packer, "packer", "", "version of packer (default the one on the search path, or the newest known)")
	flag.StringVar(&j.eksnode, "eksnode", "bin/eksnode", "the eksnode command")
	flag.StringVar(&j.plugin, "plugin", "bin/packer-plugin-eksnode", "the plugin")
	flag.StringVar(&j.template, "template", "examples/local", "the template to build")
	flag.StringVar(&j.kubelet, "kubernetes-version", usual, "the version of the kubelet")
	flag.StringVar(&j.image, "image", "build/eksnode-debian-12.raw", "the image to make; .raw or .qcow2")
	flag.StringVar(&j.reports, "reports", "build/reports", "the folder for reports")
	flag.StringVar(&j.suite, "suite", "", "the Debian release to build on, by its code name (default the harness's usual one)")
	flag.BoolVar(&j.proved, "prove", true, "audit the image and start two machines from it")
	flag.Parse()
	j.kind = machine.Kind(*kind)
	if err := j.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// step says what comes next and how long the job has been going.
func (j *job) step(format string, args ...any) {
	fmt.Fprintf(j.log, "[%6.1f s] %s\n", time.Since(j.started).Seconds(), fmt.Sprintf(format, args...))
}

func (j *job) run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return fmt.Errorf("starting: machines need root; run it by make image, which uses sudo")
	}
	if err := j.absolute(); err != nil {
		return err
	}
	if j.temporary, err = os.MkdirTemp("", "eksnode-image-"); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer func() {
		if cleanErr := os.RemoveAll(j.temporary); err == nil {
			err = cleanErr
		}
	}()
	if err := j.build(ctx); err != nil {
		return err
	}
	if !j.proved {
		return nil
	}
	return j.prove(ctx)
}

// absolute makes paths independent of the folder that programs run in.
func (j *job) absolute() error {
	for _, p := range []*string{&j.eksnode, &j.plugin, &j.template, &j.image, &j.reports} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("finding %s: %w", *p, err)
		}
		*p = abs
	}
	for _, dir := range []string{filepath.Dir(j.image), j.reports} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder for results: %w", err)
		}
	}
	return nil
}
