package scale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

// memoryName is what the peak of a process's memory is counted as.
const memoryName = "peak memory MiB"

// tree is a generated tree on a disk.
type tree struct {
	disk    *disk
	files   int
	entries int
}

// newTree makes the tree's disk; up to the size of master the tree too.
func (m *measurement) newTree(ctx context.Context, kind string, files int) (*tree, error) {
	d, err := newDisk(ctx, m.folder, kind, files)
	if err != nil {
		return nil, err
	}
	t := &tree{disk: d, files: files}
	if err := t.generate(ctx); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	if files > master {
		return t, nil
	}
	if err := errors.Join(d.unmount(), d.keep()); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return t, nil
}

func (t *tree) generate(ctx context.Context) error {
	if err := t.disk.mount(ctx); err != nil {
		return err
	}
	var err error
	t.entries, err = Generate(t.disk.point, t.files)
	return err
}

// ready mounts the whole tree and reads its inodes.
func (t *tree) ready(ctx context.Context) error {
	if t.files > master {
		if there, err := t.left(); err != nil || there > 0 {
			return err // not used yet
		}
		if _, err := Generate(t.disk.point, t.files); err != nil {
			return err
		}
		return command(ctx, "sync", "-f", t.disk.point)
	}
	if err := t.disk.unmount(); err != nil {
		return err
	}
	if err := t.disk.restore(ctx); err != nil {
		return err
	}
	if err := t.disk.mount(ctx); err != nil {
		return err
	}
	return filepath.WalkDir(t.disk.point, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			_, err = d.Info()
		}
		return err
	})
}

// left counts what is left of the targets themselves.
func (t *tree) left() (int, error) {
	n := 0
	for _, target := range targets {
		names, err := filepath.Glob(filepath.Join(t.disk.point, target))
		if err != nil {
			return 0, err
		}
		n += len(names)
	}
	return n, nil
}

// contestant runs a program on the tree; rm with every target when args is nil.
func (t *tree) contestant(name string, args []string) contest.Contestant {
	var prepared []string
	return contest.Contestant{
		Name: name,
		Prepare: func(ctx context.Context) error {
			if err := t.ready(ctx); err != nil {
				return err
			}
			if n, err := t.left(); err != nil || n < t.files/filesPerPod {
				return errors.Join(err, fmt.Errorf("the tree has only %d parts", n))
			}
			prepared = args
			if args == nil {
				var err error
				prepared, err = t.rm()
				return err
			}
			return nil
		},
		Run: func(ctx context.Context) (contest.Counts, error) { return run(ctx, t.disk.point, prepared) },
		Check: func(context.Context) (contest.Counts, error) {
			n, err := t.left()
			if err == nil && n > 0 {
				err = fmt.Errorf("it left %d of the tree's parts", n)
			}
			return nil, err
		},
	}
}

// rm is its command line, with names relative to the root so that a million
// files' fit.
func (t *tree) rm() ([]string, error) {
	args := []string{"rm", "-rf", "--"}
	for _, target := range targets {
		names, err := filepath.Glob(filepath.Join(t.disk.point, target))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			rel, err := filepath.Rel(t.disk.point, n)
			if err != nil {
				return nil, err
			}
			args = append(args, rel)
		}
	}
	return args, nil
}

// run runs a program in a folder and counts its memory.
func run(ctx context.Context, folder string, args []string) (contest.Counts, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = folder
	said, err := os.CreateTemp("", "eksnode-scale-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, readErr := os.ReadFile(said.Name())
		return nil, errors.Join(fmt.Errorf("running %s: %w: %.2000s", args[0], err, text), readErr)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return contest.Counts{
		memoryName: float64(usage.Maxrss) / 1024,
		"CPU s":    (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
	}, nil
}
