package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/afero"
)

// unitFolders are where systemd looks for units, the strongest first
// (systemd.unit(5)); what lies in /run is gone at the next boot.
var unitFolders = []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// HasUnit says whether a unit file of that name is installed. A masked unit
// (a link to /dev/null) counts as not installed.
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

// Enablements lists the links by which /etc/systemd/system starts a unit at
// boot: those in *.wants, *.requires and *.upholds folders. systemctl enable
// makes them and systemctl disable removes them, so no systemd needs to run to
// read or to clear them, also on a mounted root.
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
		switch path.Ext(e.Name()) {
		case ".wants", ".requires", ".upholds":
		default:
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

// HasSystemd says whether systemd is what started this live machine
// (sd_booted(3)).
func (h *Host) HasSystemd() bool {
	st, err := h.Files.Lstat("/run/systemd/system")
	return h.IsLive() && err == nil && st.IsDir()
}

// IsActive says whether a unit is running, starting or being stopped.
func (h *Host) IsActive(ctx context.Context, unit string) (bool, error) {
	out, err := h.Run(ctx, Command{Argv: []string{"systemctl", "show", "--property=ActiveState", "--value", unit}})
	if err != nil {
		return false, fmt.Errorf("asking for the state of %s: %w", unit, err)
	}
	switch strings.TrimSpace(string(out)) {
	case "inactive", "failed", "":
		return false, nil
	default:
		return true, nil
	}
}

// Exists says whether name is there; a dangling link counts as missing.
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

// Content reads a file whole; a missing file is nil without an error.
func (h *Host) Content(name string) ([]byte, error) {
	data, err := afero.ReadFile(h.Files, name)
	if errors.Is(err, fs.ErrNotExist) || os.IsNotExist(err) {
		return nil, nil
	}
	return data, err
}
