package packages

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// rpmFolders are the folders in which distributions keep rpm's database.
var rpmFolders = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm"}

// RPM is a package in rpm's database. Its version has the epoch and the release.
type RPM struct {
	Name, Arch, Version string
	Provides            []string
	files               []rpmFile
}

// rpmFile is a file of a package, with the numbers that rpm has for its flags.
type rpmFile struct {
	name, sum     string
	flags, verify uint32
}

// Flags of files (rpm's rpmfiles.h and rpmvf.h): the package expects people to edit
// it; another program creates it after the installation; rpm verifies its content.
const (
	rpmConfig = 1 << 0
	rpmGhost  = 1 << 6
	rpmDigest = 1 << 0
)

// rpmFormat makes rpm print a package, what it provides, and its files, as parseRPMs
// reads them.
const rpmFormat = `%{NAME}\t%{ARCH}\t%{EVR}\n[\t%{PROVIDENAME}\n][%{FILEFLAGS}\t%{FILEVERIFYFLAGS}\t%{FILEDIGESTS}\t%{FILENAMES}\n]`

// RPMs returns the packages in rpm's database; none without a database. On a live
// machine its own rpm reads it, because rpm may be running. In an image root no program
// runs and no lock stays, so RPMs reads the database itself.
func RPMs(ctx context.Context, h *host.Host) ([]RPM, error) {
	for _, folder := range rpmFolders {
		for _, form := range rpmForms() {
			there, err := h.Exists(path.Join(folder, form.name))
			switch {
			case err != nil && !isMissing(err):
				return nil, fmt.Errorf("looking for rpm's database: %w", err)
			case there && h.IsLive():
				return askRPM(ctx, h)
			case there:
				all, err := readRPMs(ctx, h, path.Join(folder, form.name), form.read)
				if err != nil {
					return nil, fmt.Errorf("reading the packages in %s: %w", folder, err)
				}
				return all, nil
			}
		}
	}
	return nil, nil
}

func askRPM(ctx context.Context, h *host.Host) ([]RPM, error) {
	out, err := h.Run(ctx, host.Command{Argv: []string{"rpm", "--query", "--all", "--queryformat=" + rpmFormat}, Env: []string{"LC_ALL=C"}})
	var all []RPM
	if err == nil {
		all, err = parseRPMs(string(out))
	}
	if err != nil {
		return nil, fmt.Errorf("querying rpm for the packages: %w", err)
	}
	return all, nil
}

// parseRPMs reads what rpm prints in rpmFormat. Of a package without files it prints
// "(none)" for each field.
func parseRPMs(said string) ([]RPM, error) {
	var all []RPM
	for line := range strings.Lines(said) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if len(f) == 3 {
			all = append(all, RPM{Name: f[0], Arch: f[1], Version: f[2]})
			continue
		}
		if len(all) == 0 || len(f) == 1 {
			return nil, fmt.Errorf("rpm printed %.80q", line)
		}
		p := &all[len(all)-1]
		if len(f) == 2 {
			p.Provides = append(p.Provides, f[1])
			continue
		}
		flags, err := strconv.ParseUint(f[0], 10, 32)
		verify, err2 := strconv.ParseUint(f[1], 10, 32)
		if f[3] == "(none)" {
			continue
		}
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("rpm printed %.80q: %w", line, err)
		}
		p.files = append(p.files, rpmFile{f[3], f[2], uint32(flags), uint32(verify)})
	}
	return all, nil
}

// eachRPMFile calls do for the files of all packages, except ghosts.
func eachRPMFile(l *lister, do func(owner string, f rpmFile) error) error {
	all, err := RPMs(l.ctx, l.h)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, f := range p.files {
			if !path.IsAbs(f.name) || f.flags&rpmGhost != 0 {
				continue
			}
			if err := do(p.Name, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func rpmFiles(l *lister) error {
	return eachRPMFile(l, func(owner string, f rpmFile) error { return l.add(owner, f.name) })
}

// rpmSums adds the checksums of all files. A file whose content rpm does not verify
// has none, because programs of its package rewrite it.
func rpmSums(l *lister, all Originals) error {
	return eachRPMFile(l, func(owner string, f rpmFile) error {
		if f.verify&rpmDigest == 0 {
			return nil
		}
		return all.add(l, owner, f.name, f.sum, f.flags&rpmConfig != 0)
	})
}

func rpmInstalled(ctx context.Context, h *host.Host, all Installed) error {
	rpms, err := RPMs(ctx, h)
	for _, p := range rpms {
		all.add(p.Name, p.Name, p.Version)
	}
	return err
}
