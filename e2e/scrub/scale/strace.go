package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

// callsFiles is the size of the tree whose removal's system calls are counted.
const callsFiles = 10_000

// systemCalls counts the calls on files and descriptors per removed entry.
func (m *measurement) systemCalls(ctx context.Context, section *report.Section) (err error) {
	t, err := m.newTree(ctx, "ext4", callsFiles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.disk.remove()) }()
	table := report.Table{Title: fmt.Sprintf("system calls on files and descriptors per removed entry (%d files, ext4, strace -fc)", callsFiles), Head: []string{"", "calls", "per entry"}}
	for i, c := range []struct {
		name string
		args []string
	}{{"eksnode scrub", m.scrubArgs(m.Eksnode, t)}, {"rm -rf", nil}} {
		if err := t.ready(ctx); err != nil {
			return err
		}
		if c.args == nil {
			if c.args, err = t.rm(); err != nil {
				return err
			}
		}
		calls, err := m.count(ctx, t, c.args)
		if err != nil {
			return err
		}
		each := float64(calls) / float64(t.entries)
		table.Rows = append(table.Rows, []string{c.name, fmt.Sprint(calls), fmt.Sprintf("%.2f", each)})
		if i == 0 {
			section.Goals = append(section.Goals, report.NewGoal("system calls on files per removed entry", each, 2.0))
		}
	}
	section.Tables = append(section.Tables, table)
	return nil
}

// count runs a program under strace.
func (m *measurement) count(ctx context.Context, t *tree, args []string) (int, error) {
	summary := filepath.Join(m.folder, "strace")
	trace := append([]string{"strace", "-f", "-c", "-U", "calls,name", "-e", "trace=%file,%desc", "-o", summary}, args...)
	if _, err := run(ctx, t.disk.point, trace); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(m.log, "%s\n", text)
	return total(string(text))
}

// total reads the last line of strace's summary: "1234 total".
func total(summary string) (int, error) {
	for line := range strings.Lines(summary) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == "total" {
			return strconv.Atoi(f[0])
		}
	}
	return 0, errors.New("reading strace's summary: it has no total")
}
