package asset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// files lists the files below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	}))
	return all
}

func TestTheCacheFetchesOnce(t *testing.T) {
	m := newMirror(t)
	data := noise(large)
	m.put(where, data)
	dir := t.TempDir()
	c := NewCache(dir, hasty())
	for range 2 {
		kept, err := c.Get(t.Context(), m.program(where), quietly)
		require.NoError(t, err)
		assert.Equal(t, Kept{Path: filepath.Join(dir, "sha256", sumOf(data)), Size: large, SHA256: sumOf(data)}, kept)
		assert.Equal(t, sumOf(data), sumOf([]byte(testkit.Content(t, kept.Path))))
	}
	assert.Len(t, m.requests(), 4+2, "four pieces, and the checksum file each time")
	assert.Equal(t, []string{"sha256/" + sumOf(data)}, files(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "sha256", sumOf(data)), []byte("damaged"), 0o644))
	kept, err := c.Get(t.Context(), m.program(where), quietly)
	require.NoError(t, err)
	assert.Equal(t, sumOf(data), sumOf([]byte(testkit.Content(t, kept.Path))), "a damaged file is fetched again")
}

func TestTheCacheResumesInterruptedDownloads(t *testing.T) {
	data := noise(large)
	sum := sumOf(data)
	stop := errors.New("stopped by the person")
	tests := map[string]struct {
		left  func(t *testing.T, dir string) // changes the interrupted file
		first string                         // first request of the next run
	}{
		"unchanged": {func(*testing.T, string) {}, "GET " + where + " bytes="},
		"spoiled": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sum), noise(pieceSize + 1)[1:], 0o600))
		}, "GET " + where + " bytes=4194304-8388607"},
		"too long": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sum), noise(2*large), 0o600))
		}, "GET " + where + " bytes=25165826-29360129"},
		"killed in the middle": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, "partial", sum)
			require.NoError(t, os.Rename(name, name+".OLD"))
			require.NoError(t, os.Chtimes(name+".OLD", testTime, testTime))
		}, "GET " + where + " bytes="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, data)
			ctx, cancel := context.WithCancelCause(t.Context())
			m.faults[where] = m.later(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			dir := t.TempDir()
			f := NewFetcher(UsualPatience())
			_, err := NewCache(dir, f).Get(ctx, m.program(where), func(done, _ int64) {
				if done >= 3<<20 {
					cancel(stop)
				}
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, []string{"partial/" + sum}, files(t, dir))
			test.left(t, dir)
			next := newMirror(t) // the first server may still get requests that the interrupted run sent ahead
			next.put(where, data)
			kept, err := NewCache(dir, f).Get(t.Context(), next.program(where), quietly)
			require.NoError(t, err)
			assert.Equal(t, sum, sumOf([]byte(testkit.Content(t, kept.Path))))
			assert.True(t, strings.HasPrefix(next.requests()[1], test.first), next.requests()[1])
			assert.NotContains(t, next.requests()[1], "bytes=0-")
			assert.Equal(t, []string{"sha256/" + sum}, files(t, dir))
		})
	}
}

func TestConcurrentRunsShareACache(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(large))
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := NewCache(dir, hasty()).Get(t.Context(), m.program(where), quietly)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, []string{"sha256/" + sumOf(noise(large))}, files(t, dir))
}

func TestLockRecordsWhereBytesAndSumsCameFrom(t *testing.T) {
	m := newMirror(t)
	data := program("amd64")
	m.put(where, data)
	c := NewCache(t.TempDir(), hasty())
	choice := Choice{Kubernetes: "1.34.4", Arch: "amd64", Source: m.URL, AllowHTTP: true}
	want := lockedKubelet()
	want.Size, want.SHA256, want.FetchedFrom, want.SumFrom = int64(len(data)), sumOf(data), m.URL+where, m.URL+where+".sha256"
	locked, err := c.Lock(t.Context(), kubelet(), choice, quietly)
	require.NoError(t, err)
	assert.Equal(t, want, locked, "url is the publisher's address")

	choice.AllowHTTP, choice.SHA256, want.SumFrom = false, sumOf(data), "checksums"
	locked, err = c.Lock(t.Context(), kubelet(), choice, quietly)
	require.NoError(t, err)
	assert.Equal(t, want, locked)
}

// A refused download is not resumed, so nothing of it stays, also not what an earlier
// run left.
func TestARefusedDownloadLeavesNothing(t *testing.T) {
	m := newMirror(t)
	m.files[where+".sha256"] = []byte(sumOf(nil))
	m.faults[where] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(mostDownload+1))
		_, _ = w.Write(noise(5000)) // the client hangs up
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "partial"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "partial", sumOf(nil)), noise(1000), 0o600))
	_, err := NewCache(dir, hasty()).Get(t.Context(), m.program(where), quietly)
	require.ErrorIs(t, err, errTooLarge)
	assert.Empty(t, files(t, dir))
}

// testTime is a fixed time in the past.
var testTime = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const eksHost = "amazon-eks.s3.us-west-2.amazonaws.com"

// index returns a web server's page of a folder in nginx's format.
func index(names ...string) []byte {
	var page strings.Builder
	page.WriteString("<html><body><h1>Index of /</h1><a href=\"../\">../</a>\n")
	for _, name := range names {
		fmt.Fprintf(&page, "<a href=\"%[1]s\">%[1]s</a> 01-Jan-2025\n", name)
	}
	return []byte(page.String())
}

func TestMissingVersionsListTheExistingOnes(t *testing.T) {
	const at = "kubelet 1.34.9 does not exist at {}/dl.k8s.io/release/v1.34.9/bin/linux/amd64/kubelet: the server answered 404 Not Found; check kubernetes_version or what the mirror {} holds"
	tests := map[string]struct {
		lay func(m *mirror)
		err string
	}{
		"some versions of the minor": {func(m *mirror) {
			m.files["/dl.k8s.io/release/"] = index("v1.33.1/", "v1.34.10/", "v1.34.4/", "stable.txt")
		}, at + "; the existing versions are 1.34.4, 1.34.10"},
		"no version of the minor": {
			func(m *mirror) { m.files["/dl.k8s.io/release/"] = index("v1.33.1/", "v1.33.0/") },
			at + "; the existing versions are 1.33.0, 1.33.1",
		},
		"no versions": {
			func(m *mirror) { m.files["/dl.k8s.io/release/"] = index() },
			at + "; the asset has no versions there",
		},
		"a version without this file": {func(m *mirror) { m.files["/dl.k8s.io/release/"] = index("v1.34.9/") }, at},
		"no pages of folders":         {func(*mirror) {}, at + " (listing its versions failed: the server answered 404 Not Found)"},
		"many": {func(m *mirror) {
			var names []string
			for i := range 20 {
				names = append(names, fmt.Sprintf("v1.34.%d/", i+10))
			}
			m.files["/dl.k8s.io/release/"] = index(names...)
		}, at + "; the existing versions are 1.34.18, 1.34.19, 1.34.20, 1.34.21, 1.34.22, 1.34.23, 1.34.24, 1.34.25, 1.34.26, 1.34.27, 1.34.28, 1.34.29 and older ones"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			test.lay(m)
			d, err := kubelet().For(Choice{Kubernetes: "1.34.9", Arch: "amd64", Commands: "/usr/bin", Source: m.URL, AllowHTTP: true})
			require.NoError(t, err)
			_, err = Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
			require.EqualError(t, err, strings.ReplaceAll(test.err, "{}", m.URL))
		})
	}
}

// For a missing upstream version the error names the page that lists the versions.
func TestAMissingUpstreamVersionNamesTheListOfVersions(t *testing.T) {
	m := newMirror(t)
	d, err := kubelet().For(Choice{Kubernetes: "1.34.9", Arch: "amd64"})
	require.NoError(t, err)
	d.URL, d.SumURL = m.URL+where, m.URL+where+".sha256"
	_, err = Install(t.Context(), newMachine(t, nil).Host, hasty(), d, quietly)
	require.EqualError(t, err, "kubelet 1.34.9 does not exist at "+m.URL+where+": the server answered 404 Not Found; check kubernetes_version; https://kubernetes.io/releases/ lists the versions")
}

func TestAFolderIsASource(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, where)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at, noise(10_000), 0o644))
	require.NoError(t, os.WriteFile(at+".sha256", []byte(sumOf(noise(10_000))), 0o644))
	install := func(version string) (machine, error) {
		d, err := kubelet().For(Choice{Kubernetes: version, Arch: "amd64", Commands: "/usr/bin", Source: "file://" + dir})
		require.NoError(t, err)
		h := newMachine(t, nil)
		got, err := Install(t.Context(), h.Host, hasty(), d, quietly)
		if err == nil {
			assert.Equal(t, "https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet", got.URL, "the manifest must not name the folder")
		}
		return h, err
	}
	h, err := install("1.34.4")
	require.NoError(t, err)
	assert.Equal(t, sumOf(noise(10_000)), sumOf([]byte(testkit.Content(t, filepath.Join(h.root, "usr/bin/kubelet")))))

	_, err = install("1.34.5")
	place := "file://" + dir + strings.ReplaceAll(where, "1.34.4", "1.34.5")
	require.EqualError(t, err, "kubelet 1.34.5 does not exist at "+place+"; check kubernetes_version or what the folder file://"+dir+" holds; the existing versions are 1.34.4")

	require.NoError(t, os.Remove(at+".sha256"))
	_, err = install("1.34.4")
	require.EqualError(t, err, "the checksum file file://"+at+".sha256 is missing: open "+at+".sha256: no such file or directory; nothing is installed without a checksum: add the file, or pin the sum with checksums[\"kubelet\"]")

	require.NoError(t, os.WriteFile(at+".sha256", []byte(sumOf(nil)), 0o644))
	_, err = install("1.34.4")
	require.EqualError(t, err, "verifying kubelet 1.34.4: the 10000 bytes from file://"+at+" have the SHA-256 "+sumOf(noise(10_000))+
		", but the checksum file says "+sumOf(nil)+"; nothing was installed; try again or check the mirror file://"+dir)

	require.NoError(t, os.Remove(at))
	require.NoError(t, os.Mkdir(at, 0o755))
	_, err = install("1.34.4")
	require.EqualError(t, err, "fetching file://"+at+": "+at+" is not a file")

	_, err = openFile("file://server/x", 0)
	require.EqualError(t, err, "reading the address file://server/x: a file of another machine cannot be read; write file:// and an absolute path")
}

// s3 answers like S3's ListObjectsV2, with two names on a page.
func s3(t *testing.T, prefixes map[string][]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		assert.Equal(t, "2", q.Get("list-type"))
		assert.Equal(t, "/", q.Get("delimiter"))
		all := prefixes[q.Get("prefix")]
		from := 0
		_, _ = fmt.Sscan(q.Get("continuation-token"), &from)
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>amazon-eks</Name>`)
		for _, name := range all[from:min(from+2, len(all))] {
			fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", q.Get("prefix")+name+"/")
		}
		if from+2 < len(all) {
			fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", from+2)
		}
		fmt.Fprint(w, "</ListBucketResult>")
	}
}

func TestABucketListsItsVersions(t *testing.T) {
	m := newMirror(t)
	m.faults["/"] = s3(t, map[string][]string{
		"":        {"1.33.5", "1.34.1", "1.34.2", "cloudformation", "1.9.0"},
		"1.34.1/": {"2025-11-13", "2025-09-19"},
		"1.34.2/": nil,
	})
	f := hasty()
	names, err := f.names(t.Context(), versionFolder{address: m.URL + "/", bucket: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"1.9.0", "1.33.5", "1.34.1", "1.34.2"}, names)

	d, err := kubelet().For(Choice{Kubernetes: "1.34.1", Arch: "amd64", Commands: "/usr/bin", Origin: EKSBucket, Date: "2025-12-01"})
	require.NoError(t, err)
	here := func(d Download) Download {
		move := strings.NewReplacer("https://"+eksHost, m.URL)
		d.URL, d.SumURL = move.Replace(d.URL), move.Replace(d.SumURL)
		for i := range d.folders {
			d.folders[i].address = move.Replace(d.folders[i].address)
		}
		return d
	}
	_, err = Install(t.Context(), newMachine(t, nil).Host, f, here(d), quietly)
	require.EqualError(t, err, "kubelet 1.34.1 does not exist at "+m.URL+"/1.34.1/2025-12-01/bin/linux/amd64/kubelet: the server answered 404 Not Found; check kubernetes_version and eks_build_date; the existing build dates are 2025-09-19, 2025-11-13")
	d, err = kubelet().For(Choice{Kubernetes: "1.34.9", Arch: "amd64", Commands: "/usr/bin", Origin: EKSBucket, Date: "2025-12-01"})
	require.NoError(t, err)
	_, err = Install(t.Context(), newMachine(t, nil).Host, f, here(d), quietly)
	require.EqualError(t, err, "kubelet 1.34.9 does not exist at "+m.URL+"/1.34.9/2025-12-01/bin/linux/amd64/kubelet: the server answered 404 Not Found; check kubernetes_version and eks_build_date; the existing versions are 1.34.1, 1.34.2")

	m.faults["/"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sign in</html>") }
	_, err = f.names(t.Context(), versionFolder{address: m.URL + "/", bucket: true})
	require.EqualError(t, err, "reading the bucket's list: expected element type <ListBucketResult> but have <html>")
}

func TestTheEKSBucketNeedsADate(t *testing.T) {
	_, err := kubelet().For(Choice{Kubernetes: "1.34.4", Arch: "amd64", Origin: EKSBucket})
	require.EqualError(t, err, `choosing kubelet: source "eks-bucket" needs eks_build_date, the day of EKS' build, or a lock file: "eksnode lock --source eks-bucket" finds the newest day and records it`)
	for i, want := range []string{
		"https://" + eksHost + "/1.34.4/2025-11-13/bin/linux/arm64/kubelet",
		"https://" + eksHost + "/1.34.4/2025-11-13/bin/linux/arm64/ecr-credential-provider",
		"https://github.com/containernetworking/plugins/releases/download/v1.10.0/cni-plugins-linux-arm64-v1.10.0.tgz",
	} {
		d, err := Table()[i].For(Choice{Kubernetes: "1.34.4", Arch: "arm64", Origin: EKSBucket, Date: "2025-11-13"})
		require.NoError(t, err)
		assert.Equal(t, want, d.URL)
	}
	require.EqualError(t, CheckOrigin("s3"), `source "s3" is not known; known are upstream, eks-bucket`)
}

func TestTheNewestBuildIsFound(t *testing.T) {
	m := newMirror(t)
	m.files["/"+eksHost+"/"] = index("1.34.4/", "1.33.1/")
	m.files["/"+eksHost+"/1.34.4/"] = index("2025-11-13/", "2025-09-19/")
	day, err := hasty().NewestBuild(t.Context(), "1.34.4", m.URL)
	require.NoError(t, err)
	assert.Equal(t, "2025-11-13", day)
	_, err = hasty().NewestBuild(t.Context(), "1.34.5", m.URL)
	require.EqualError(t, err, "EKS has no build of Kubernetes 1.34.5; the existing versions are 1.34.4")
	delete(m.files, "/"+eksHost+"/")
	_, err = hasty().NewestBuild(t.Context(), "1.34.4", m.URL)
	require.EqualError(t, err, "listing the versions in "+m.URL+"/"+eksHost+"/: the server answered 404 Not Found; name the day with eks_build_date")
}
