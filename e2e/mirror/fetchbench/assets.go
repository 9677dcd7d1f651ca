package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// made is an asset of the benchmark: of the size and kind of a real node's, with
// made-up content.
type made struct {
	name    string
	size    int64 // bytes; of an archive what is in it
	archive bool
}

// place is where it lies in the mirror.
func (m made) place() string { return "assets.example/" + m.file() }

func (m made) file() string {
	if m.archive {
		return m.name + ".tgz"
	}
	return m.name
}

// assets are about 400 MB to download.
func assets() []made {
	return []made{
		{"kubelet", 76 << 20, false},
		{"kubectl", 57 << 20, false},
		{"ecr-credential-provider", 20 << 20, false},
		{"aws-iam-authenticator", 50 << 20, false},
		{"runc", 12 << 20, false},
		{"cni-plugins", 130 << 20, true},
		{"containerd", 120 << 20, true},
		{"aws-cli", 80 << 20, true},
		{"crictl", 40 << 20, true},
	}
}

// lay makes the assets and puts them into a mirror. It answers their size.
func lay(ctx context.Context, folder string) (int64, error) {
	temporary, err := os.MkdirTemp("", "eksnode-fetchbench-*")
	if err != nil {
		return 0, fmt.Errorf("making a folder for the assets: %w", err)
	}
	defer os.RemoveAll(temporary)
	var list []mirror.Asset
	var total int64
	for i, m := range assets() {
		name := filepath.Join(temporary, m.file())
		if err := m.write(name, uint64(i)); err != nil {
			return 0, fmt.Errorf("making %s: %w", m.name, err)
		}
		st, err := os.Stat(name)
		if err != nil {
			return 0, fmt.Errorf("making %s: %w", m.name, err)
		}
		total += st.Size()
		address := "https://" + m.place()
		list = append(list, mirror.Asset{File: name, URL: address, SumURL: address + ".sha256", SumForm: mirror.Listed})
	}
	return total, mirror.Lay(ctx, folder, list...)
}

func (m made) write(name string, seed uint64) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	content := &halfNoise{noise: rand.New(rand.NewPCG(seed, seed))}
	if !m.archive {
		_, err = io.CopyN(out, content, m.size)
		return err
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	pack := tar.NewWriter(zip)
	const members = 10
	for i := range members {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%s-%d", m.name, i), Mode: 0o755, Size: m.size / members}
		if err := pack.WriteHeader(head); err != nil {
			return err
		}
		if _, err := io.CopyN(pack, content, head.Size); err != nil {
			return err
		}
	}
	if err := pack.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// halfNoise compresses to about two fifths, as programs do.
type halfNoise struct{ noise *rand.Rand }

func (h *halfNoise) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 16 {
		var word [16]byte
		a := h.noise.Uint64()
		for j := range 6 {
			word[j] = byte(a >> (8 * j))
		}
		copy(p[i:], word[:])
	}
	return len(p), nil
}

// serialScript is what an image's shell script does.
func serialScript(url string) string {
	var script strings.Builder
	script.WriteString("set -eu\nmkdir -p bin\n")
	for _, m := range assets() {
		fmt.Fprintf(&script, "curl -fsS -o %[1]s %[2]s/%[3]s\ncurl -fsS -o sum %[2]s/%[3]s.sha256\nsha256sum --quiet -c sum\n", m.file(), url, m.place())
		if m.archive {
			fmt.Fprintf(&script, "mkdir %[1]s\ntar -xzf %[2]s -C %[1]s\nrm %[2]s\n", m.name, m.file())
		} else {
			fmt.Fprintf(&script, "chmod 755 %[1]s\nmv %[1]s bin\n", m.name)
		}
	}
	return script.String()
}
