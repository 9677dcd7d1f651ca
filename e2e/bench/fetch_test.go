//go:build e2e

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// fetchFrom is the environment variable that makes this program download assets
// into the working folder, from the mirror in its value.
const fetchFrom = "EKSNODE_BENCH_FETCH_FROM"

// file is an asset with the size and kind of a real node's.
type file struct {
	name    string
	mib     int // contents of an archive
	archive bool
}

// files returns assets of about 400 MB.
func files() []file {
	return []file{
		{"kubelet", 76, false},
		{"kubectl", 57, false},
		{"ecr-credential-provider", 20, false},
		{"aws-iam-authenticator", 50, false},
		{"runc", 12, false},
		{"cni-plugins", 130, true},
		{"containerd", 120, true},
		{"aws-cli", 80, true},
		{"crictl", 40, true},
	}
}

// BenchmarkFetch downloads, verifies and unpacks the assets: with the code of
// provisioning, and with curl, sha256sum and tar one after the other. The
// mirror responds after 20 ms and sends 50 MiB/s over each connection.
func BenchmarkFetch(b *testing.B) {
	install(b)
	folder := b.TempDir()
	lay(b, filepath.Join(folder, "mirror"))
	server, err := mirror.Serve(context.WithoutCancel(b.Context()), "127.0.0.1:0", filepath.Join(folder, "mirror"),
		mirror.Options{BytesPerSecond: 50 << 20, Latency: 2 * oneWay * time.Millisecond})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, server.Close()) })
	into := filepath.Join(folder, "into")
	ready := func() { sh(b, `rm -rf "$1"; mkdir "$1"; sync`, into) }
	check := func() figures { // 5 programs and 10 files of each of 4 archives
		require.Equal(b, "45", sh(b, `find "$1" -type f | wc -l`, into))
		return nil
	}
	ours, theirs := race(b, 1, "curl", 0.20,
		way{ready, func() figures {
			return measured(b, into, append(os.Environ(), fetchFrom+"="+server.URL()), os.Args[0])
		}, check},
		way{ready, func() figures { return measured(b, into, nil, "bash", "-c", curls(server.URL())) }, check})
	goal(b, "CPU-x-of-curl", ours["CPU-s"]/theirs["CPU-s"], 0.6)
	goal(b, "MiB", ours["MiB"], 200)
}

// lay writes the assets and their checksum files. Their bytes compress to about
// two fifths, as programs do.
func lay(b *testing.B, folder string) {
	b.Helper()
	noise := make([]byte, 130<<20)
	for i := range noise {
		if i%16 < 6 {
			noise[i] = byte(rand.Uint32())
		}
	}
	write(b, filepath.Join(folder, "noise"), noise)
	for _, f := range files() {
		script := `head -c "$3M" noise >"$2"`
		if f.archive {
			script = `mkdir t; head -c "$3M" noise >whole; split -n 10 whole t/; tar -C t -I "gzip -1" -cf "$2" .; rm -r t whole`
		}
		sh(b, `cd "$1"; `+script+`; sha256sum "$2" >"$2.sha256"`, folder, f.name, strconv.Itoa(f.mib))
	}
}

// curls is the usual shell script of an image build.
func curls(url string) string {
	script := "set -eu\nmkdir bin\n"
	for _, f := range files() {
		script += fmt.Sprintf("curl -fsS -o %[1]s %[2]s/%[1]s\ncurl -fsS -o sum %[2]s/%[1]s.sha256\nsha256sum --quiet -c sum\nrm sum\n", f.name, url)
		if f.archive {
			script += fmt.Sprintf("mkdir opt-%[1]s\ntar -xzf %[1]s -C opt-%[1]s\nrm %[1]s\n", f.name)
		} else {
			script += fmt.Sprintf("chmod 755 %[1]s\nmv %[1]s bin\n", f.name)
		}
	}
	return script
}

// fetchAll installs the assets one after the other like provisioning: each
// download starts while the asset before it is being installed.
func fetchAll(ctx context.Context, url string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	h, err := host.Mounted(root)
	if err != nil {
		return err
	}
	defer h.Close()
	var all []asset.Download
	for _, f := range files() {
		d := asset.Download{
			ID: f.name, Version: "1.0.0", VersionSource: "versions", Kind: asset.Program, Target: "/usr/bin/" + f.name,
			URL: url + "/" + f.name, SumURL: url + "/" + f.name + ".sha256", SumForm: asset.Listed,
		}
		if f.archive {
			d.Kind, d.Target = asset.TarGz, "/opt/"+f.name
		}
		all = append(all, d)
	}
	fetcher := asset.NewFetcher(asset.UsualPatience())
	for _, d := range all {
		if _, err := asset.Install(ctx, h, fetcher, d, func(int64, int64) {}); err != nil {
			return err
		}
	}
	return nil
}
