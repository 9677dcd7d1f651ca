package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"
)

// unitFolders are the folders in which systemd looks for units, the strongest first
// (systemd.unit(5)). Files in /run are gone at the next boot.
var unitFolders = []string{
	"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
}

// HasUnit says whether a unit file of that name is installed. A masked unit (a link
// to /dev/null) counts as not installed.
func (h *Host) HasUnit(name string) (bool, error) {
	for _, dir := range unitFolders {
		p := path.Join(dir, name)
		if target, err := h.Files.ReadlinkIfPossible(p); err == nil && target == "/dev/null" {
			return false, nil
		}
		_, err := h.Files.Stat(p)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("looking for the unit %s: %w", name, err)
		}
	}
	return false, nil
}

// Enablements lists the links by which /etc/systemd/system starts a unit at boot:
// the links in *.wants, *.requires and *.upholds folders. systemctl enable makes
// these links and systemctl disable removes them. Reading and removing them needs
// no systemd, so it also works on an image root.
func (h *Host) Enablements(unit string) ([]string, error) {
	const dir = "/etc/systemd/system"
	entries, err := afero.ReadDir(h.Files, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing enabled units: %w", err)
	}
	var links []string
	for _, e := range entries {
		if !slices.Contains([]string{".wants", ".requires", ".upholds"}, path.Ext(e.Name())) {
			continue
		}
		link := path.Join(dir, e.Name(), unit)
		if _, err := h.Files.Lstat(link); err == nil {
			links = append(links, link)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing enabled units: %w", err)
		}
	}
	return links, nil
}

// HasSystemd says whether systemd started this live machine (sd_booted(3)).
func (h *Host) HasSystemd() bool {
	st, err := h.Files.Lstat("/run/systemd/system")
	return h.IsLive() && err == nil && st.IsDir() && !inChroot()
}

// inChroot says whether the root of this process is not that of process 1: a chroot
// may see the /run of the machine around it. Without /proc, it is a chroot too.
func inChroot() bool {
	first, err := os.Stat("/proc/1/root")
	if err != nil { // only root may look
		return errors.Is(err, fs.ErrNotExist)
	}
	own, err := os.Stat("/")
	return err == nil && !os.SameFile(first, own)
}

// Offline says whether the programs of this root run, but systemd did not start it: in a
// chroot, a container build, or the sandbox of provision --root. Units can be enabled
// there, but nothing can be started, and the kernel belongs to another machine.
func (h *Host) Offline() bool { return h.IsLive() && !h.HasSystemd() }

// UnitProperty returns one property, such as ActiveState, of each unit in the order
// of units.
func (h *Host) UnitProperty(ctx context.Context, property string, units ...string) ([]string, error) {
	// The systemd 219 of Amazon Linux 2 does not support --value.
	out, err := h.Run(ctx, Command{Argv: append([]string{"systemctl", "show", "--property=" + property}, units...)})
	if err != nil {
		return nil, fmt.Errorf("reading the property %s of %s: %w", property, strings.Join(units, ", "), err)
	}
	var values []string
	for line := range strings.Lines(string(out)) {
		if value, ok := strings.CutPrefix(line, property+"="); ok {
			values = append(values, strings.TrimSpace(value))
		}
	}
	if len(values) != len(units) {
		return nil, fmt.Errorf("reading the property %s of %s: systemctl printed %q", property,
			strings.Join(units, ", "), out)
	}
	return values, nil
}

// Active lists the units that are running, starting or stopping.
func (h *Host) Active(ctx context.Context, units ...string) ([]string, error) {
	states, err := h.UnitProperty(ctx, "ActiveState", units...)
	if err != nil {
		return nil, err
	}
	var active []string
	for i, unit := range units {
		if states[i] != "inactive" && states[i] != "failed" {
			active = append(active, unit)
		}
	}
	return active, nil
}

// Queued lists the units that systemd is about to start, as at the end of a boot.
func (h *Host) Queued(ctx context.Context) ([]string, error) {
	out, err := h.Run(ctx, Command{Argv: []string{"systemctl", "list-jobs", "--no-legend", "--no-pager"}})
	if err != nil {
		return nil, fmt.Errorf("reading systemd's jobs: %w", err)
	}
	var units []string
	for line := range strings.Lines(string(out)) {
		// The columns are number, unit, type and state. Some versions print a sentence without jobs.
		if job := strings.Fields(line); len(job) == 4 && (job[2] == "start" || job[2] == "restart") {
			units = append(units, job[1])
		}
	}
	return units, nil
}

// IsActive says whether a unit is running, starting or stopping.
func (h *Host) IsActive(ctx context.Context, unit string) (bool, error) {
	active, err := h.Active(ctx, unit)
	return len(active) > 0, err
}

// Exists says whether name exists. A dangling link counts as missing.
func (h *Host) Exists(name string) (bool, error) {
	_, err := h.Files.Stat(name)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}

// contentMost is the largest file that Content reads, in bytes. Package databases
// have some MiB; no configuration is larger.
const contentMost = 32 << 20

// Content reads a whole regular file of at most 32 MiB. A missing file gives nil
// and no error.
func (h *Host) Content(name string) ([]byte, error) {
	data, err := h.Files.Read(name, contentMost)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
