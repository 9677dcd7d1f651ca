package tools

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// release describes a tool's release on its publisher's site. The texts may
// contain {version} and {arch}.
type release struct {
	URL string
	// Sum is the URL of the publisher's checksum file, in the form Form.
	Sum  string
	Form asset.SumForm
	// Member is the name of the program in the archive at URL; empty if URL is the
	// tool's own file.
	Member string
}

// awayError means that a site does not respond, or does not have the release.
type awayError struct{ error }

// answers is how long a publisher's site may take to send a checksum file.
const answers = 3 * time.Second

// mostSum is the size limit of a checksum file, in bytes.
const mostSum = 1 << 20

// download writes the tool's file to folder, verified with the publisher's
// checksum. An awayError means that the tool must be built.
func (b builder) download(ctx context.Context, folder string) error {
	from := b.tool.Release.of(b.version, b.arch)
	want, err := from.checksum(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	file, err := os.CreateTemp(folder, "download-*")
	if err != nil {
		return fmt.Errorf("making a temporary file: %w", err)
	}
	defer os.Remove(file.Name())
	size, err := from.fetch(ctx, file, want)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	final := filepath.Join(folder, b.output())
	if from.Member == "" {
		err = os.Rename(file.Name(), final)
	} else {
		err = extract(file.Name(), from, final)
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", from.URL, err)
	}
	if err := os.Chmod(final, 0o755); err != nil {
		return fmt.Errorf("making %s executable: %w", b.tool.Name, err)
	}
	fmt.Fprintf(b.log, "downloaded %s: %.1f MB in %.0f s\n", from.URL, float64(size)/1e6, time.Since(start).Seconds())
	if b.tool.Archive != nil || b.arch != runtime.GOARCH {
		return nil
	}
	return b.tool.Probe.check(ctx, final, b.version)
}

// of inserts version and architecture into the URLs.
func (r release) of(version, arch string) release {
	for _, text := range []*string{&r.URL, &r.Sum, &r.Member} {
		*text = filled(*text, version, arch)
	}
	return r
}

// checksum returns the SHA-256 of the release from the publisher's checksum
// file.
func (r release) checksum(ctx context.Context) (string, error) {
	soon, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	body, err := asset.NewFetcher(asset.Patience{Attempts: 1, Stall: answers}).Open(soon, r.Sum, 0)
	if err != nil {
		return "", r.away(ctx, err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, mostSum))
	if err != nil {
		return "", r.away(ctx, err)
	}
	sum, err := asset.ParseSum(string(text), r.Form, path.Base(r.URL))
	if err != nil {
		return "", fmt.Errorf("reading the checksum file %s: %w", r.Sum, err)
	}
	return sum, nil
}

// away returns an awayError, unless the user interrupted.
func (r release) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &awayError{err}
}

// fetch writes the release to a file and verifies its checksum.
func (r release) fetch(ctx context.Context, to io.Writer, want string) (int64, error) {
	patience := asset.Patience{Attempts: 3, Wait: time.Second, Stall: 10 * time.Second}
	body, err := asset.NewFetcher(patience).Open(ctx, r.URL, 0)
	if err != nil {
		return 0, r.away(ctx, err)
	}
	defer body.Close()
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, hash), body)
	if err != nil {
		return 0, r.away(ctx, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return 0, fmt.Errorf("comparing %s with %s: the file has the SHA-256 %s, the publisher says %s; "+
			"does a proxy change downloads?", r.URL, r.Sum, got, want)
	}
	return size, nil
}

// extract writes one member of a zip or a compressed tar to final.
func extract(archive string, from release, final string) error {
	if strings.HasSuffix(from.URL, ".zip") {
		r, err := zip.OpenReader(archive)
		if err != nil {
			return err
		}
		defer r.Close()
		member, err := r.Open(from.Member)
		if err != nil {
			return err
		}
		defer member.Close()
		return writeProgram(final, member)
	}
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive has no member %s", from.Member)
		}
		if err != nil {
			return err
		}
		if path.Clean(header.Name) == from.Member && header.Typeflag == tar.TypeReg {
			return writeProgram(final, r)
		}
	}
}

func writeProgram(name string, from io.Reader) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// archive says what upstream's archive of a tool has.
type archive struct {
	// Programs is the folder of the programs, which ends in a slash; empty means the root.
	Programs string
	// Files are patterns of files of the module.
	Files []string
}

// KubeBenchBenchmark is the benchmark whose checks are packed with kube-bench.
const KubeBenchBenchmark = "eks-1.8.0"

//go:embed pack.sh
var packScript string

// pack packs the built programs and files of their module.
func (a archive) pack(programs string, upstream source, final string) error {
	released, err := upstream.released()
	if err != nil {
		return err
	}
	args := []string{"-c", packScript, "sh", final, fmt.Sprint(released.Unix()), programs, a.Programs, upstream.Dir}
	if out, err := exec.Command("sh", append(args, a.Files...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("packing: %w: %s", err, out)
	}
	return nil
}
