package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/e2e/delay"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// benchmark is a row of the table in benchmarks.go. What it is about stands in
// a file of its own.
type benchmark struct {
	name, about string
	// rounds is how often each contestant runs; 0 for a benchmark that measures
	// what does not vary.
	rounds int
	run    func(ctx context.Context, b *bench, rounds int) (report.Section, error)
}

// bench is what benchmarks share.
type bench struct {
	progress io.Writer
	now      func() time.Time
	link     delay.Link
	folder   string // temporary
	opened   *bed.Bed
	nodes    int
	node     *node // that was provisioned; see race.go
}

// roundTrip is that between two neighbouring regions of a cloud, or between a
// desk and a near one.
const roundTrip = 20 * time.Millisecond

func newBench(progress io.Writer) (*bench, error) {
	folder, err := os.MkdirTemp("", "eksnode-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	return &bench{progress: progress, now: time.Now, link: delay.Link{Delay: roundTrip / 2}, folder: folder}, nil
}

func (b *bench) close() error {
	var errs []error
	if b.node != nil {
		errs = append(errs, b.node.Close())
	}
	if b.opened != nil {
		errs = append(errs, b.opened.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.folder))...)
}

// bed opens the bed for the first benchmark that needs machines.
func (b *bench) bed(ctx context.Context) (*bed.Bed, error) {
	if b.opened != nil {
		return b.opened, nil
	}
	opened, err := bed.Open(ctx, b.link, b.progress)
	b.opened = opened
	return opened, err
}

// boot makes a machine of a name that no other has.
func (b *bench) boot(ctx context.Context) (*bed.Node, error) {
	opened, err := b.bed(ctx)
	if err != nil {
		return nil, err
	}
	b.nodes++
	return opened.Boot(ctx, fmt.Sprintf("i-bench-%d", b.nodes))
}

// reportFile is where a provisioner block keeps its report.
func (b *bench) reportFile() string { return filepath.Join(b.folder, "report.json") }

// block runs one of the plugin's provisioners as Packer does, and keeps its
// report. It answers how long the parts of it took.
func (b *bench) block(ctx context.Context, node *bed.Node, p packersdk.Provisioner, fields map[string]any) (contest.Counts, error) {
	fields["report"] = b.reportFile()
	screen := newStopwatch(b.now)
	if err := p.Prepare(fields); err != nil {
		return nil, fmt.Errorf("preparing the block: %w", err)
	}
	if err := p.Provision(ctx, bed.Screen(screen), node.Comm, nil); err != nil {
		return nil, fmt.Errorf("running the block: %w; it said: %s", err, screen.said.String())
	}
	return screen.counts(), nil
}

// readReport reads what the last block kept.
func (b *bench) readReport() (plan.Report, error) {
	var r plan.Report
	text, err := os.ReadFile(b.reportFile())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading the block's report: %w", err)
	}
	return r, nil
}
