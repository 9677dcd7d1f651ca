package asset

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// mirror is an HTTP server with files. Handlers in faults replace files by path.
// mirror records the requests.
type mirror struct {
	*httptest.Server
	files  map[string][]byte
	faults map[string]http.HandlerFunc

	mu    sync.Mutex
	asked []string // "GET /path" or "GET /path bytes=7-"
}

func newMirror(t *testing.T) *mirror {
	m := &mirror{files: map[string][]byte{}, faults: map[string]http.HandlerFunc{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked = append(m.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
	fault := m.faults[r.URL.Path]
	m.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	m.serve(w, r)
}

func (m *mirror) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	data, ok := m.files[r.URL.Path]
	m.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.asked...)
}

func (m *mirror) put(path string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = data
	m.files[path+".sha256"] = []byte(sumOf(data) + "\n")
}

func sumOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// noise is incompressible content, the same for each size.
func noise(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	return data
}

func (m *mirror) program(path string) Download {
	return Download{
		ID: "kubelet", Version: "1.34.4", VersionSource: "kubernetes_version", Kind: Program, Target: "/usr/bin/kubelet",
		URL: m.URL + path, SumURL: m.URL + path + ".sha256", SumForm: Bare,
	}
}

func (m *mirror) archive(path string) Download {
	d := m.program(path)
	d.ID, d.Version, d.VersionSource = "cni-plugins", "1.10.0", `versions["cni-plugins"]`
	d.Kind, d.Target = TarGz, "/opt/cni/bin"
	return d
}

// hasty returns a Fetcher with short pauses between its attempts.
func hasty() *Fetcher { return hastyWith(time.Minute) }

// hastyWith is hasty with a time limit for silent servers. A short limit depends on
// the machine's load, so only tests of silent servers use one.
func hastyWith(stall time.Duration) *Fetcher {
	return NewFetcher(Patience{Attempts: 4, Wait: time.Millisecond, Stall: stall})
}

// patienceFor returns the Fetcher of a test case. Names that start with "silent" get
// a short time limit.
func patienceFor(name string) *Fetcher {
	if strings.HasPrefix(name, "silent") {
		return hastyWith(300 * time.Millisecond)
	}
	return hasty()
}

func quietly(int64, int64) {}

// machine is an image root with these files.
type machine struct {
	*host.Host
	root string
}

func newMachine(t *testing.T, files map[string]string) machine {
	t.Helper()
	h := hosttest.Root(t, files)
	return machine{h, h.Root()}
}

// tree lists all files with a sum of their content, links with their targets, and
// folders with a slash.
func (m machine) tree(t *testing.T) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.Walk(m.root, func(name string, st os.FileInfo, err error) error {
		if err != nil || name == m.root {
			return err
		}
		at := strings.TrimPrefix(name, m.root)
		switch {
		case st.IsDir():
			list = append(list, at+"/")
		case st.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(name)
			list = append(list, at+" -> "+to)
			return err
		default:
			data, err := os.ReadFile(name)
			list = append(list, at+" "+st.Mode().String()+" "+sumOf(data)[:8])
			return err
		}
		return nil
	}))
	sort.Strings(list)
	return list
}

// refuses installs what must not be installed, and returns the error. No file changes.
func (m machine) refuses(ctx context.Context, t *testing.T, f *Fetcher, d Download) error {
	t.Helper()
	before := m.tree(t)
	_, err := Install(ctx, m.Host, f, d, quietly)
	require.Error(t, err)
	assert.Equal(t, before, m.tree(t), "a failure must not change any file")
	return err
}

// tgz packs members without any check.
func tgz(t *testing.T, members ...*tar.Header) []byte {
	t.Helper()
	return testkit.Gzip(packed(members))
}

// packed is a tar archive of the members. A file of size 0 gets some content. A
// file that claims a size gets none, and the archive ends there.
func packed(members []*tar.Header) []byte {
	var out bytes.Buffer
	pack := tar.NewWriter(&out)
	for _, h := range members {
		content := ""
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			content = "content of " + h.Name
			h.Size = int64(len(content))
		}
		if err := pack.WriteHeader(h); err != nil {
			panic(err) // a fault of the test
		}
		_, _ = io.WriteString(pack, content) // into memory
	}
	_ = pack.Flush() // fails on purpose after a header that claims more than the content
	return out.Bytes()
}

func regular(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}
}
