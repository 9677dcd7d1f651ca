package asset

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		"no version of the minor": {func(m *mirror) { m.files["/dl.k8s.io/release/"] = index("v1.33.1/", "v1.33.0/") }, at + "; the existing versions are 1.33.0, 1.33.1"},
		"no versions":             {func(m *mirror) { m.files["/dl.k8s.io/release/"] = index() }, at + "; the asset has no versions there"},
		"a version without this file": {func(m *mirror) { m.files["/dl.k8s.io/release/"] = index("v1.34.9/") },
			at},
		"no pages of folders": {func(*mirror) {}, at + " (listing its versions failed: the server answered 404 Not Found)"},
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
	got, err := os.ReadFile(filepath.Join(h.root, "usr/bin/kubelet"))
	require.NoError(t, err)
	assert.Equal(t, sumOf(noise(10_000)), sumOf(got))

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
		"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz",
	} {
		d, err := Table()[i].For(Choice{Kubernetes: "1.34.4", Arch: "arm64", Origin: EKSBucket, Date: "2025-11-13"})
		require.NoError(t, err)
		assert.Equal(t, want, d.URL)
	}
	_, err = OriginByID("s3")
	require.EqualError(t, err, `source "s3" is not known; known are upstream, eks-bucket`)
}

func TestBuildDatesAreListed(t *testing.T) {
	m := newMirror(t)
	m.files["/"+eksHost+"/"] = index("1.34.4/", "1.33.1/")
	m.files["/"+eksHost+"/1.34.4/"] = index("2025-11-13/", "2025-09-19/")
	dates, err := hasty().BuildDates(t.Context(), "1.34.4", m.URL)
	require.NoError(t, err)
	assert.Equal(t, []string{"2025-09-19", "2025-11-13"}, dates)
	_, err = hasty().BuildDates(t.Context(), "1.34.5", m.URL)
	require.EqualError(t, err, "EKS has no build of Kubernetes 1.34.5; the existing versions are 1.34.4")
	delete(m.files, "/"+eksHost+"/")
	_, err = hasty().BuildDates(t.Context(), "1.34.4", m.URL)
	require.EqualError(t, err, "listing the versions in "+m.URL+"/"+eksHost+"/: the server answered 404 Not Found; name the day with eks_build_date")
}
