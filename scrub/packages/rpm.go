package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// rpmFolders are the folders in which distributions keep rpm's database.
// rpmDatabases are the names of its main file: in SQLite, Berkeley DB or rpm's
// own format.
var (
	rpmFolders   = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm"}
	rpmDatabases = []string{"rpmdb.sqlite", "Packages", "Packages.db"}
)

// rpmMost is how many bytes of a database are copied.
const rpmMost = 2 << 30

// rpmFiles queries rpm for all files except ghosts, which other programs create
// after the installation.
func rpmFiles(l *lister) error {
	out, err := RPM(l.ctx, l.h, `[%{=NAME}\t%{FILEFLAGS:fflags}\t%{FILENAMES}\n]`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		owner, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		flags, file, _ := strings.Cut(rest, "\t")
		if !path.IsAbs(file) || strings.Contains(flags, "g") {
			continue
		}
		if err := l.add(owner, file); err != nil {
			return err
		}
	}
	return nil
}

// RPM queries rpm about every installed package in a query format. The result
// is nil, without an error, if there is no database. On a live machine its own
// rpm runs. For an image root, the workstation's rpm reads a copy of the
// database, so that no program of the image runs and no lock stays in it.
func RPM(ctx context.Context, h *host.Host, format string) ([]byte, error) {
	folder, err := rpmFolder(h)
	if err != nil || folder == "" {
		return nil, err
	}
	query := []string{"rpm", "--query", "--all", "--queryformat=" + format}
	if h.IsLive() {
		out, err := h.Run(ctx, host.Command{Argv: query, Env: []string{"LC_ALL=C"}})
		if err != nil {
			return nil, fmt.Errorf("querying rpm for the packages: %w", err)
		}
		return out, nil
	}
	rpm, err := exec.LookPath("rpm")
	if err != nil {
		return nil, fmt.Errorf("reading the packages in %s: install rpm on this workstation, which reads the database", folder)
	}
	copied, err := os.MkdirTemp("", "eksnode-rpm-")
	if err != nil {
		return nil, err
	}
	out, err := askCopy(ctx, h, rpm, folder, copied, query[1:])
	return out, errors.Join(err, os.RemoveAll(copied))
}

// rpmFolder returns the folder of the database; empty if there is none.
func rpmFolder(h *host.Host) (string, error) {
	for _, folder := range rpmFolders {
		for _, name := range rpmDatabases {
			there, err := h.Exists(path.Join(folder, name))
			if err != nil && !isMissing(err) {
				return "", fmt.Errorf("looking for rpm's database: %w", err)
			}
			if there {
				return folder, nil
			}
		}
	}
	return "", nil
}

// askCopy copies the files of a database and queries the copy with the
// workstation's rpm.
func askCopy(ctx context.Context, h *host.Host, rpm, folder, copied string, query []string) ([]byte, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil {
		return nil, fmt.Errorf("reading the packages in %s: %w", folder, err)
	}
	left := int64(rpmMost)
	for _, e := range entries {
		if !e.Mode().IsRegular() {
			continue
		}
		if left -= e.Size(); left < 0 {
			return nil, fmt.Errorf("reading the packages in %s: the database has more than %d bytes", folder, int64(rpmMost))
		}
		if err := copyFile(h, path.Join(folder, e.Name()), filepath.Join(copied, e.Name()), e.Size()); err != nil {
			return nil, fmt.Errorf("reading the packages in %s: %w", folder, err)
		}
	}
	cmd := exec.CommandContext(ctx, rpm, append([]string{"--dbpath", copied}, query...)...)
	cmd.Env = []string{"LC_ALL=C", "HOME=" + copied, "PATH=" + os.Getenv("PATH")}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil && strings.Contains(said.String(), "error:") { // rpm continues after some errors
		err = errors.New("rpm failed")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the packages in %s: %w: %.300q", folder, err, said.String())
	}
	return out, nil
}

func copyFile(h *host.Host, from, to string, size int64) error {
	in, err := h.Files.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, size))
	return errors.Join(err, out.Close())
}

// rpmDigest is the flag of files whose content rpm verifies.
const rpmDigest = 1

// rpmSums queries rpm for the checksums of all files. A file whose content rpm
// does not verify has none, because programs of its package rewrite it.
func rpmSums(l *lister, all Originals) error {
	out, err := RPM(l.ctx, l.h, `[%{=NAME}\t%{FILEFLAGS:fflags}\t%{FILEVERIFYFLAGS}\t%{FILEDIGESTS}\t%{FILENAMES}\n]`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5)
		if len(f) < 5 || !path.IsAbs(f[4]) || strings.Contains(f[1], "g") {
			continue
		}
		if verified, err := strconv.ParseUint(f[2], 10, 64); err != nil || verified&rpmDigest == 0 {
			continue
		}
		if err := all.add(l, f[0], f[4], f[3], strings.Contains(f[1], "c")); err != nil {
			return err
		}
	}
	return nil
}

// rpmInstalled queries rpm.
func rpmInstalled(ctx context.Context, h *host.Host, all Installed) error {
	out, err := RPM(ctx, h, `%{NAME}\t%{EVR}\n`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			all.add(name, name, version)
		}
	}
	return nil
}
