// Package scale measures the scrub on many files: whole processes, side by side
// with rm -rf of the same paths and with virt-sysprep of the same disk.
package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

// Size is how large a tree is, and how often each contestant removes it.
type Size struct{ Files, Rounds int }

// Options say what is measured. The zero value of each field but Eksnode means
// what is said there.
type Options struct {
	// Eksnode is the path of the command.
	Eksnode string
	// Agent is the path of the build that nodes carry and the plugin sends,
	// without the commands of a desk; empty leaves it out. What it takes to
	// start is seen in small trees, so it removes these.
	Agent string
	// Folder is where the disks lie; /dev/shm, so that no other's disk traffic
	// is measured.
	Folder string
	// Sizes are 1 k, 10 k, 100 k and 1 M files.
	Sizes []Size
	// Kinds are the file systems, ext4 and xfs.
	Kinds []string
	// WithoutSysprep leaves virt-sysprep out, where its packages cannot be had.
	WithoutSysprep bool
	// Now tells the time.
	Now func() time.Time
}

func (o Options) complete() Options {
	if o.Folder == "" {
		o.Folder = "/dev/shm"
	}
	if o.Sizes == nil {
		o.Sizes = []Size{{1_000, 15}, {10_000, 9}, {100_000, 5}, {1_000_000, 1}}
	}
	if o.Kinds == nil {
		o.Kinds = []string{"ext4", "xfs"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// master is the largest tree of which a copy is kept rather than made again:
// beyond, two of them may be more than fits into memory.
const master = 100_000

// largest is the memory that a scrub may take at most, in MiB.
const largest = 64

// Run measures. It needs root and installs what it needs; progress goes to log.
//
// It works on a thread with a mount namespace of its own: in the host's,
// machines that others start meanwhile would keep copies of its mounts, and
// unmounting would neither write a disk's end nor free its memory.
func Run(ctx context.Context, log io.Writer, o Options) (section report.Section, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the namespace ends with the thread
		err = unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err != nil {
			err = fmt.Errorf("making a mount namespace: %w", err)
			return
		}
		section, err = measure(ctx, log, o)
	}()
	<-done
	return section, err
}

func measure(ctx context.Context, log io.Writer, o Options) (section report.Section, err error) {
	o = o.complete()
	if err := base.Install(ctx, log, "e2fsprogs", "xfsprogs", "strace", "mount"); err != nil {
		return section, err
	}
	folder, err := os.MkdirTemp(o.Folder, "eksnode-scale-")
	if err != nil {
		return section, fmt.Errorf("making room for disks: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	m := &measurement{Options: o, log: log, folder: folder}
	section.Facts = map[string]float64{}
	for _, kind := range o.Kinds {
		for _, size := range o.Sizes {
			if err := m.race(ctx, kind, size, &section); err != nil {
				return section, err
			}
		}
	}
	if err := m.systemCalls(ctx, &section); err != nil {
		return section, err
	}
	if o.WithoutSysprep {
		section.Notes = append(section.Notes, "virt-sysprep was left out, as asked; its ratio was not measured")
	} else if err := m.sysprep(ctx, &section); err != nil {
		return section, err
	}
	section.Notes = append(section.Notes,
		fmt.Sprintf("a scrub is the whole process eksnode scrub --root MOUNT --rules %s --yes: start, plan, removal, verification; rm -rf gets the same paths as arguments", rules),
		"the file systems lie in files in memory and are mounted by loop devices; both contestants find the same tree, with its inodes in the cache",
	)
	return section, nil
}

type measurement struct {
	Options
	log    io.Writer
	folder string
}

// small is the size up to which a process's start counts.
const small = 1000

// limit is the most that the ratio to rm -rf may be; sizes between have none.
func limit(kind string, files int) (float64, bool) {
	switch {
	case files <= small:
		return 1.2, true
	case files >= 100_000 && kind == "ext4":
		return 0.75, true
	case files >= 100_000:
		return 1.0, true
	}
	return 0, false
}

// race lets the scrub and rm remove the same tree.
func (m *measurement) race(ctx context.Context, kind string, size Size, section *report.Section) (err error) {
	fmt.Fprintf(m.log, "  making %d files on %s\n", size.Files, kind)
	t, err := m.newTree(ctx, kind, size.Files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.disk.remove()) }()
	if err := m.contest(ctx, t, size, m.Eksnode, "", section); err != nil || m.Agent == "" || size.Files > small {
		return err
	}
	return m.contest(ctx, t, size, m.Agent, ", as on nodes", section)
}

// contest runs a build against rm on the same tree.
func (m *measurement) contest(ctx context.Context, t *tree, size Size, build, note string, section *report.Section) error {
	name := fmt.Sprintf("%s, %d files%s", t.disk.kind, size.Files, note)
	outcome, err := contest.Contest{
		Name: fmt.Sprintf("%s (%d entries)", name, t.entries), Rounds: size.Rounds, Now: m.Now, Log: m.log,
		Contestants: []contest.Contestant{t.contestant("eksnode scrub", m.scrubArgs(build, t)), t.contestant("rm -rf", nil)},
	}.Run(ctx)
	if err != nil {
		return err
	}
	section.Contests = append(section.Contests, outcome)
	if most, ok := limit(t.disk.kind, size.Files); ok {
		section.Goals = append(section.Goals, report.NewGoal(name+": time to rm -rf's", outcome.Ratio(1), most))
	}
	memory := outcome.Contestants[0].Counts[memoryName]
	section.Goals = append(section.Goals, report.NewGoal(name+": peak memory in MiB", memory, largest))
	return nil
}

func (m *measurement) scrubArgs(build string, t *tree) []string {
	args := []string{build, "scrub", "--yes", "--audit", "off", "--root", t.disk.point}
	for _, r := range rules {
		args = append(args, "--rules", r)
	}
	return args
}
