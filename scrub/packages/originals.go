package packages

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Original is a regular file as a package installed it.
type Original struct {
	// Package owns the file.
	Package string
	// Config says that the package expects people to edit the file.
	Config bool
	// sum is the digest of the content. Its length names the algorithm.
	sum string
}

// Originals are the files with a checksum in a package database, by their place
// on the machine after all links. Several packages may own one file.
type Originals map[string][]Original

// ReadOriginals reads the checksums of dpkg, pacman and rpm. A machine without a
// database has none, such as one whose /usr is an image of its own.
func ReadOriginals(ctx context.Context, h *host.Host) (Originals, error) {
	l := &lister{ctx: ctx, h: h, folders: map[string]string{"/": "/"}}
	all := Originals{}
	for _, read := range []func(*lister, Originals) error{dpkgSums, pacmanSums, rpmSums} {
		if err := read(l, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Places lists the files in order.
func (o Originals) Places() []string { return slices.Sorted(maps.Keys(o)) }

// Same reports whether a file's content equals one of its originals. It reads
// everything.
func Same(originals []Original, in io.Reader) (bool, error) {
	sums := map[int]hash.Hash{}
	var all []io.Writer
	for _, o := range originals {
		if sums[len(o.sum)] == nil {
			sums[len(o.sum)] = digests()[len(o.sum)]()
			all = append(all, sums[len(o.sum)])
		}
	}
	if _, err := io.Copy(io.MultiWriter(all...), in); err != nil {
		return false, err
	}
	return slices.ContainsFunc(originals, func(o Original) bool { return string(sums[len(o.sum)].Sum(nil)) == o.sum }), nil
}

// digests are the algorithms of package managers by the length of their sums.
func digests() map[int]func() hash.Hash {
	return map[int]func() hash.Hash{md5.Size: md5.New, sha1.Size: sha1.New, sha256.Size: sha256.New, sha512.Size384: sha512.New384, sha512.Size: sha512.New}
}

// add records a file. A sum that is not known is left out: the file then counts
// as one without an original.
func (o Originals) add(l *lister, owner, name, sum string, config bool) error {
	raw, err := hex.DecodeString(sum)
	if err != nil || digests()[len(raw)] == nil {
		return nil
	}
	folder, err := l.folder(path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	place := path.Join(folder, path.Base(name))
	o[place] = append(o[place], Original{owner, config, string(raw)})
	return nil
}

// dpkgSums reads dpkg's lists of checksums, and those of configuration files in
// its status.
func dpkgSums(l *lister, all Originals) error {
	entries, err := afero.ReadDir(l.h.Files, dpkgInfo)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("reading dpkg's checksums: %w", err)
	}
	diverted, err := diversions(l.h)
	if err != nil {
		return fmt.Errorf("reading dpkg's diversions: %w", err)
	}
	for _, e := range entries {
		owner, ok := strings.CutSuffix(e.Name(), ".md5sums")
		if !ok {
			continue
		}
		text, err := content(l.h, path.Join(dpkgInfo, e.Name()))
		if err != nil {
			return fmt.Errorf("reading dpkg's checksums: %w", err)
		}
		for line := range strings.Lines(text) {
			sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if !ok {
				continue
			}
			if err := all.add(l, owner, diverted.place(owner, path.Join("/", name)), sum, false); err != nil {
				return err
			}
		}
	}
	return conffiles(l, diverted, all)
}

// conffiles reads the configuration files of dpkg's packages, also of removed
// ones.
func conffiles(l *lister, diverted diverted, all Originals) error {
	status, err := content(l.h, dpkgStatus)
	if err != nil {
		if isMissing(err) {
			return nil
		}
		return fmt.Errorf("reading dpkg's configuration files: %w", err)
	}
	owner, listed := "", false
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "Package:"); ok {
			owner = strings.TrimSpace(v)
		}
		if !strings.HasPrefix(line, " ") {
			listed = strings.HasPrefix(line, "Conffiles:")
			continue
		}
		fields := strings.Fields(line) // /etc/file sum, and perhaps "obsolete"
		if !listed || len(fields) < 2 || !path.IsAbs(fields[0]) {
			continue
		}
		if err := all.add(l, owner, diverted.place(owner, fields[0]), fields[1], true); err != nil {
			return err
		}
	}
	return nil
}

// diverted are dpkg's diversions: files of other packages than the one named
// are at another place.
type diverted map[string]struct{ to, but string }

// diversions reads dpkg's diversions, three lines each.
func diversions(h *host.Host) (diverted, error) {
	text, err := content(h, path.Join(path.Dir(dpkgStatus), "diversions"))
	if err != nil && !isMissing(err) {
		return nil, err
	}
	found, lines := diverted{}, strings.Split(text, "\n")
	for ; len(lines) >= 3; lines = lines[3:] {
		found[lines[0]] = struct{ to, but string }{lines[1], lines[2]}
	}
	return found, nil
}

func (d diverted) place(owner, name string) string {
	owner, _, _ = strings.Cut(owner, ":")
	if to, ok := d[name]; ok && to.but != owner {
		return to.to
	}
	return name
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

// pacmanSums reads the manifests of pacman's local database; %BACKUP% of a
// package lists its configuration files.
func pacmanSums(l *lister, all Originals) error {
	entries, err := afero.ReadDir(l.h.Files, pacmanLocal)
	if err != nil {
		if isMissing(err) {
			return nil
		}
		return fmt.Errorf("reading pacman's checksums: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		packed, err := content(l.h, path.Join(pacmanLocal, e.Name(), "mtree"))
		if isMissing(err) {
			continue
		}
		var text []byte
		if err == nil {
			text, err = unpacked(packed)
		}
		var files string
		if err == nil {
			files, err = content(l.h, path.Join(pacmanLocal, e.Name(), "files"))
		}
		if err == nil {
			err = mtree(l, e.Name(), text, backups(files), all)
		}
		if err != nil {
			return fmt.Errorf("reading pacman's checksums of %s: %w", e.Name(), err)
		}
	}
	return nil
}

// unpacked is an mtree file as text; pacman compresses it with gzip.
func unpacked(packed string) ([]byte, error) {
	if !strings.HasPrefix(packed, "\x1f\x8b") {
		return []byte(packed), nil
	}
	in, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, listMost+1))
	if err == nil && len(text) > listMost {
		err = fmt.Errorf("mtree has more than %d bytes", listMost)
	}
	return text, err
}

// backups are the configuration files of a package in pacman's list of files.
func backups(files string) map[string]bool {
	found := map[string]bool{}
	_, list, _ := strings.Cut(files, "%BACKUP%\n")
	for line := range strings.Lines(list) {
		name, _, ok := strings.Cut(line, "\t")
		if !ok {
			break
		}
		found["/"+name] = true
	}
	return found
}

// mtree reads the checksums of a manifest in the form of mtree(5).
func mtree(l *lister, owner string, text []byte, config map[string]bool, all Originals) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "./") {
			continue
		}
		name := path.Join("/", unescaped(fields[0]))
		for _, f := range fields[1:] {
			if sum, ok := strings.CutPrefix(f, "sha256digest="); ok {
				if err := all.add(l, owner, name, sum, config[name]); err != nil {
					return err
				}
			}
		}
	}
	return lines.Err()
}

// unescaped replaces the octal codes in a name of mtree(5), such as \040.
func unescaped(name string) string {
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' && i+3 < len(name) {
			if n, err := strconv.ParseUint(name[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(name[i])
	}
	return out.String()
}
