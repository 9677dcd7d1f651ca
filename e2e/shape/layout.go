package shape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// removed are globs of what the distribution has not.
func (s Shape) removed() []string {
	lists := removedLists()
	if s.manager.isDebian() {
		return lists.Every
	}
	return append(lists.Other, lists.Every...)
}

// layOutOffered gives the unpacked packages the distribution's layout.
func (s Shape) layOutOffered(offered []pkg) error {
	for i, p := range offered {
		if err := mergeUsr(p.folder); err != nil {
			return err
		}
		if err := s.layOutPackage(p.folder); err != nil {
			return err
		}
		if p.debian == "iptables" {
			for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
				if err := relink(filepath.Join(p.folder, s.sbin(), name), "xtables-nft-multi"); err != nil {
					return err
				}
			}
		}
		var err error
		if offered[i].files, offered[i].size, err = listed(p.folder); err != nil {
			return err
		}
	}
	return nil
}

func (s Shape) sbin() string {
	if s.OneBin {
		return "/usr/bin"
	}
	return "/usr/sbin"
}

func (s Shape) layOutPackage(folder string) error {
	if s.OneBin {
		if err := mergeBin(folder); err != nil {
			return err
		}
	}
	if err := base.RemoveAll(folder, s.removed()); err != nil {
		return err
	}
	return s.renameUnits(folder)
}

// mergeUsr moves what a package has in /bin, /sbin and /lib below /usr.
func mergeUsr(folder string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := move(filepath.Join(folder, name), filepath.Join(folder, "usr", name)); err != nil {
			return err
		}
	}
	return nil
}

// mergeBin makes /usr/sbin a link to /usr/bin, where there is one.
func mergeBin(root string) error {
	sbin := filepath.Join(root, "usr/sbin")
	entries, err := os.ReadDir(sbin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("merging /usr/sbin: %w", err)
	}
	if info, err := os.Lstat(sbin); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	for _, e := range entries {
		// A link of compatibility would name itself afterwards.
		if target, err := os.Readlink(filepath.Join(sbin, e.Name())); err == nil && path.Base(target) == e.Name() {
			if err := os.Remove(filepath.Join(sbin, e.Name())); err != nil {
				return fmt.Errorf("merging /usr/sbin: %w", err)
			}
		}
	}
	if err := move(sbin, filepath.Join(root, "usr/bin")); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(root, "usr/lib/os-release")); err != nil {
		return nil // a package
	}
	return os.Symlink("bin", sbin)
}

// move moves a folder's entries into another folder.
func move(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("moving %s: %w", from, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("moving %s: %w", from, err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("moving %s: %w", from, err)
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			err = move(source, target)
		} else {
			err = os.Rename(source, target)
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(from)
}

func (s Shape) renameUnits(root string) error {
	for _, old := range slices.Sorted(maps.Keys(s.Units)) {
		units := filepath.Join(root, "usr/lib/systemd/system")
		if _, err := os.Lstat(filepath.Join(units, old)); err != nil {
			continue
		}
		if err := os.Rename(filepath.Join(units, old), filepath.Join(units, s.Units[old])); err != nil {
			return fmt.Errorf("renaming %s: %w", old, err)
		}
		wants, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/*", old))
		if err != nil {
			return fmt.Errorf("renaming %s: %w", old, err)
		}
		for _, want := range append(wants, filepath.Join(root, "etc/systemd/system", s.Units[old])) {
			if err := os.RemoveAll(want); err != nil {
				return fmt.Errorf("renaming %s: %w", old, err)
			}
		}
	}
	return nil
}

// removeDebian takes Debian's package managers away, and what belongs to them.
func (s Shape) removeDebian(root string) error {
	if s.manager.isDebian() {
		return nil
	}
	return base.RemoveAll(root, removedLists().Managers)
}

// finalScript enables and disables units, and does what the shape adds.
func (s Shape) finalScript() string {
	var b strings.Builder
	for _, unit := range s.Disabled {
		fmt.Fprintf(&b, "systemctl disable %s\n", unit)
	}
	for _, unit := range s.Enabled {
		fmt.Fprintf(&b, "systemctl enable %s\n", unit)
	}
	return b.String() + s.Script
}

func (s Shape) run(ctx context.Context, root, name, script string) error {
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-euc",
		`mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; mount -t tmpfs tmpfs "$0/run"; mount -t tmpfs tmpfs "$0/tmp"; exec chroot "$0" /bin/sh -eu`, root)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root", "SYSTEMD_OFFLINE=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running the %s script: %w: %s", name, err, tail(out))
	}
	return nil
}

// command runs a program of the host.
func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %s", name, err, tail(out))
	}
	return nil
}

// tail is the end of what a program printed, and before it what it called errors.
func tail(out []byte) []byte {
	var errs []byte
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte("error:")) && len(errs) < 1000 {
			errs = append(errs, line...)
		}
	}
	out = append(errs, bytes.TrimSpace(out)[max(0, len(bytes.TrimSpace(out))-500):]...)
	return out[max(0, len(out)-2000):]
}
