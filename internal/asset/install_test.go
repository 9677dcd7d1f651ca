package asset

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// firstPiece is the first request for a program.
const firstPiece = "GET " + where + " bytes=0-4194303"

const where = "/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"

func TestInstallWritesAProgram(t *testing.T) {
	m := newMirror(t)
	data := noise(3 << 20)
	m.put(where, data)
	h := newMachine(t, nil)
	var told [][2]int64
	record, err := Install(t.Context(), h.Host, hasty(), m.program(where), func(done, total int64) { told = append(told, [2]int64{done, total}) })
	require.NoError(t, err)
	size := int64(len(data))
	assert.Equal(t, manifest.Asset{
		ID: "kubelet", Version: "1.34.4", URL: m.URL + where, SumFrom: m.URL + where + ".sha256", Size: size, SHA256: sumOf(data),
		Files: []manifest.File{{Path: "/usr/bin/kubelet", Mode: 0o755, Size: size, SHA256: sumOf(data)}},
	}, record)
	assert.Equal(t, []string{"/usr/", "/usr/bin/", "/usr/bin/kubelet -rwxr-xr-x " + sumOf(data)[:8]}, h.tree(t))
	assert.Equal(t, []string{"GET " + where + ".sha256", firstPiece}, m.requests())
	require.NotEmpty(t, told)
	assert.Equal(t, [2]int64{size, size}, told[len(told)-1], "the last progress must be the whole size")
	differs, err := record.Differs(h.Host)
	require.NoError(t, err)
	assert.Empty(t, differs)
}

func TestAPinnedSumNeedsNoChecksumFile(t *testing.T) {
	m := newMirror(t)
	m.files[where] = noise(1000)
	d := m.program(where)
	d.SHA256 = sumOf(noise(1000))
	_, err := Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
	require.NoError(t, err)
	assert.Equal(t, []string{firstPiece}, m.requests())
}

// deadAddress returns a loopback address without a listener.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestFailedInstallationsChangeNothing(t *testing.T) {
	data := noise(300_000)
	good, bad := sumOf(data), sumOf([]byte("x"))
	dead := deadAddress(t)
	tests := map[string]struct {
		fault func(m *mirror, d *Download)
		err   string // {} means the mirror's URL
		asked int    // number of requests for the program
	}{
		"no such version": {
			fault: func(m *mirror, _ *Download) { m.files = nil },
			err:   "kubelet 1.34.4 does not exist at {}" + where + ": the server answered 404 Not Found; check kubernetes_version", asked: 1,
		},
		"no such version in a mirror": {
			fault: func(m *mirror, d *Download) { m.files = nil; d.Mirror = m.URL },
			err:   "kubelet 1.34.4 does not exist at {}" + where + ": the server answered 404 Not Found; check kubernetes_version or what the mirror {} holds", asked: 1,
		},
		"no such version, with a pinned sum": {
			fault: func(m *mirror, d *Download) { m.files = nil; d.SHA256 = good },
			err:   "kubelet 1.34.4 does not exist at {}" + where + ": the server answered 404 Not Found; check kubernetes_version", asked: 1,
		},
		"a bucket that may not be listed": {
			fault: func(m *mirror, _ *Download) { m.faults[where], m.faults[where+".sha256"] = status(403), status(403) },
			err:   "kubelet 1.34.4 does not exist at {}" + where + ": the server answered 403 Forbidden; check kubernetes_version", asked: 1,
		},
		"checksum file missing": {
			fault: func(m *mirror, _ *Download) { delete(m.files, where+".sha256") },
			err:   "the checksum file {}" + where + ".sha256 is missing: the server answered 404 Not Found; nothing is installed without a checksum: add the file, or pin the sum with checksums[\"kubelet\"]", asked: 1,
		},
		"checksum file malformed": {
			fault: func(m *mirror, _ *Download) { m.files[where+".sha256"] = []byte("<html>not today</html>\n") },
			err:   "reading the checksum file {}" + where + ".sha256: the line \"<html>not today</html>\" is not a SHA-256; nothing is installed without a checksum: correct the file, or pin the sum with checksums[\"kubelet\"]",
		},
		"checksum file without end": {
			fault: func(m *mirror, _ *Download) { m.files[where+".sha256"] = noise(2 << 20) },
			err:   "fetching {}" + where + ".sha256: the file has more than 1048576 bytes",
		},
		"checksum mismatch": {
			fault: func(m *mirror, _ *Download) { m.files[where+".sha256"] = []byte(bad) },
			err:   "verifying kubelet 1.34.4: the 300000 bytes from {}" + where + " have the SHA-256 " + good + ", but the checksum file says " + bad + "; nothing was installed; try again", asked: 1,
		},
		"mismatch with a pinned sum": {
			fault: func(_ *mirror, d *Download) { d.SHA256 = bad },
			err:   "verifying kubelet 1.34.4: the 300000 bytes from {}" + where + " have the SHA-256 " + good + ", but checksums[\"kubelet\"] says " + bad + "; nothing was installed; correct the sum or kubernetes_version", asked: 1,
		},
		"larger than any asset": {
			fault: func(m *mirror, _ *Download) {
				m.faults[where] = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1073741825") }
			},
			err: "fetching {}" + where + ": the download has more than 1073741824 bytes, which no asset has", asked: 1,
		},
		"cut off each time": {
			fault: func(m *mirror, _ *Download) { m.faults[where] = m.cutAfter(1000) },
			err:   "fetching {}" + where + ": the download was cut off after 4000 of 300000 bytes; try again", asked: 4,
		},
		"broken server": {
			fault: func(m *mirror, _ *Download) { m.faults[where] = status(500) },
			err:   "fetching {}" + where + ": the server answered 500 Internal Server Error; try again", asked: 4,
		},
		"broken mirror": {
			fault: func(m *mirror, d *Download) { m.faults[where] = status(502); d.Mirror = m.URL },
			err:   "fetching {}" + where + ": the server answered 502 Bad Gateway; try again or check the mirror {}", asked: 4,
		},
		"login page": {
			fault: func(m *mirror, _ *Download) { m.faults[where] = status(401) },
			err:   "fetching {}" + where + ": the server answered 401 Unauthorized; try again", asked: 1,
		},
		"silent server": {
			fault: func(m *mirror, _ *Download) {
				m.faults[where] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			},
			err: "fetching {}" + where + ": the server stopped sending", asked: 4,
		},
		"connection refused": {
			fault: func(_ *mirror, d *Download) { d.URL, d.SHA256 = "http://"+dead+where, good },
			err:   "reaching " + dead + " for http://" + dead + where + ": dial tcp " + dead + ": connect: connection refused; check this machine's network and proxy, or name a mirror it can reach with source_url",
		},
		"unknown host": {
			fault: func(_ *mirror, d *Download) { d.SumURL = "http://mirror.invalid/sum" },
			err:   "reaching mirror.invalid for http://mirror.invalid/sum: dial tcp: lookup mirror.invalid",
		},
		"unknown kind": {
			fault: func(_ *mirror, d *Download) { d.Kind = "zip" }, err: `unknown kind of download "zip"`, asked: 1,
		},
		"unreachable mirror": {
			fault: func(_ *mirror, d *Download) { d.SumURL, d.Mirror = "http://"+dead+where+".sha256", "http://"+dead },
			err:   "reaching " + dead + " for http://" + dead + where + ".sha256: dial tcp " + dead + ": connect: connection refused; check that this machine can reach the mirror named by source_url (http://" + dead + ")",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, data)
			d := m.program(where)
			test.fault(m, &d)
			h := newMachine(t, map[string]string{"usr/bin/kubelet": "the old one"})
			err := h.refuses(t.Context(), t, patienceFor(name), d)
			require.ErrorContains(t, err, strings.ReplaceAll(test.err, "{}", m.URL))
			asked := 0
			for _, r := range m.requests() {
				if strings.HasPrefix(r, "GET "+where+" ") || strings.HasSuffix(r, where) {
					asked++
				}
			}
			assert.Equal(t, test.asked, asked, "requests for the program")
		})
	}
}

func TestAnUntrustedCertificateIsNotRetried(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(10))
	secure := httptest.NewUnstartedServer(m)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	d := m.program(where)
	d.SumURL = secure.URL + where + ".sha256"
	_, err := Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
	require.ErrorContains(t, err, "tls: failed to verify certificate: x509: certificate signed by unknown authority; install the certificate authority that signed it on this machine")
	assert.Empty(t, m.requests())
}

func TestPasswordsStayOutOfErrorsAndRecords(t *testing.T) {
	m := newMirror(t)
	m.put("/"+where, noise(10))
	withUser := strings.Replace(m.URL, "http://", "http://me:secret@", 1)
	d := m.program("/" + where)
	d.URL, d.SumURL = withUser+"/"+where, withUser+"/"+where+".sha256"
	record, err := Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
	require.NoError(t, err)
	assert.Equal(t, m.URL+"/"+where, record.URL)

	for _, broken := range []string{withUser + "/nothing", "http://me:secret@" + deadAddress(t) + "/x"} {
		d.URL, d.SumURL = broken, broken+".sha256"
		_, err = Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestAnInterruptedDownloadLeavesNothing(t *testing.T) {
	stop := errors.New("stopped by the person")
	for _, kind := range []Kind{Program, TarGz} {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			m := newMirror(t)
			m.put(where, tgz(t, regular("a")))
			m.faults[where] = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "300000")
				_, _ = w.Write(m.files[where][:20])
				w.(http.Flusher).Flush()
				cancel(stop)
				<-r.Context().Done()
			}
			d := m.program(where)
			if kind == TarGz {
				d = m.archive(where)
			}
			h := newMachine(t, map[string]string{"usr/bin/kubelet": "old", "opt/cni/bin/bridge": "old"})
			require.ErrorIs(t, h.refuses(ctx, t, NewFetcher(UsualPatience()), d), stop)
		})
	}
}

func mount(t *testing.T, h machine, at string, flags uintptr, options string) {
	t.Helper()
	dir := filepath.Join(h.root, at)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", flags, options))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

func TestFullAndReadOnlyDisksAreNamed(t *testing.T) {
	tests := map[string]struct {
		flags   uintptr
		options string
		is      error
		err     string
	}{
		"full":      {0, "nr_inodes=2", syscall.ENOSPC, "no space left on device; free some space or give the machine a larger disk"},
		"read-only": {unix.MS_RDONLY, "", syscall.EROFS, "; remount it for writing, or choose a base image whose root can be written"},
	}
	for name, test := range tests {
		t.Run("program, "+name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, noise(300_000))
			h := newMachine(t, nil)
			options := test.options
			if test.is == syscall.ENOSPC {
				options = "size=64k"
			}
			mount(t, h, "usr/bin", test.flags, options)
			err := h.refuses(t.Context(), t, hasty(), m.program(where))
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, "write /usr/bin/kubelet: "+test.is.Error())
			require.ErrorContains(t, err, test.err)
		})
		t.Run("archive, "+name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, tgz(t, regular("one"), regular("two")))
			h := newMachine(t, nil)
			mount(t, h, "opt/cni/bin", test.flags, test.options)
			err := h.refuses(t.Context(), t, hasty(), m.archive(where))
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, test.err)
		})
	}
}
