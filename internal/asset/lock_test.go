package asset

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func lockedKubelet() Locked {
	return Locked{
		ID: "kubelet", Kubernetes: "1.34.4", Arch: "amd64", Version: "1.34.4", Origin: Upstream,
		URL:  "https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet",
		Size: 300_000, SHA256: sumOf(noise(300_000)),
	}
}

func encoded(t *testing.T, l *Lock) string {
	t.Helper()
	data, err := l.Encode()
	require.NoError(t, err)
	return string(data)
}

func parsed(t *testing.T, l *Lock) *Lock {
	t.Helper()
	read, err := ParseLock([]byte(encoded(t, l)))
	require.NoError(t, err)
	return read
}

func TestALockSurvivesWritingAndReading(t *testing.T) {
	pause := LockedImage{Name: "registry.k8s.io/pause:3.10", Digest: "sha256:" + strings.Repeat("a", 64)}
	arm := lockedKubelet()
	arm.Arch = "arm64"
	one := encoded(t, &Lock{Assets: []Locked{arm, lockedKubelet()}, Images: []LockedImage{pause}})
	read, err := ParseLock([]byte(one))
	require.NoError(t, err)
	assert.Equal(t, []Locked{lockedKubelet(), arm}, read.Assets, "entries must be sorted")
	assert.Equal(t, one, encoded(t, read))
	got, ok := read.Find("kubelet", "1.34.4", "arm64")
	require.True(t, ok)
	assert.Equal(t, arm, got)
	_, ok = read.Find("kubelet", "1.34.5", "arm64")
	assert.False(t, ok)
	digest, ok := read.Image(pause.Name)
	require.True(t, ok)
	assert.Equal(t, pause.Digest, digest)
	var none *Lock
	_, ok = none.Find("kubelet", "1.34.4", "amd64")
	assert.False(t, ok)
	_, ok = none.Image(pause.Name)
	assert.False(t, ok)
}

func TestATamperedLockIsRefused(t *testing.T) {
	good := encoded(t, &Lock{Assets: []Locked{lockedKubelet()}})
	sum := sumOf(noise(300_000))
	other := strings.Repeat("0", 64)
	tests := map[string]struct{ text, err string }{
		"a changed sum":      {strings.Replace(good, sum, other, 1), "the file was edited by hand or is damaged; " + remade},
		"a changed size":     {strings.Replace(good, "300000", "300001", 1), "the file was edited by hand or is damaged; " + remade},
		"a changed address":  {strings.Replace(good, "dl.k8s.io", "evil.example", 1), "the file was edited by hand or is damaged; " + remade},
		"an unknown field":   {strings.Replace(good, `"assets"`, `"asets"`, 1), `not a lock file: line 3, column 3: the field "asets" is not known; did you mean assets?; ` + remade},
		"another schema":     {strings.Replace(good, LockSchema, "eksnode.lock/v9", 1), `the schema is "eksnode.lock/v9", not "eksnode.lock/v1"; another version of eksnode wrote the file, or it was edited by hand; restore the file from version control, or delete it and create it again with "eksnode lock"`},
		"no JSON":            {"kubelet 1.34.4\n", "not a lock file: line 1, column 1: invalid character 'k' looking for beginning of value; " + remade},
		"empty":              {"", "not a lock file: the text is empty; " + remade},
		"cut off":            {good[:len(good)/2], "not a lock file: line 10, column 44: the text ends too early; " + remade},
		"more after the end": {good + "{}", "more text follows the end; " + remade},
		"conflict markers":   {"<<<<<<< HEAD\n" + good, "not a lock file: line 1, column 1: invalid character '<' looking for beginning of value; " + remade},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseLock([]byte(test.text))
			require.ErrorContains(t, err, test.err)
			assert.True(t, strings.HasSuffix(err.Error(), test.err))
		})
	}
}

func TestALockWithInvalidEntriesIsRefused(t *testing.T) {
	const of = "the entry of kubelet for Kubernetes 1.34.4 on amd64: "
	tests := map[string]struct {
		change func(*Lock)
		err    string
	}{
		"twice":           {func(l *Lock) { l.Assets = append(l.Assets, l.Assets[0]) }, "the file has kubelet for Kubernetes 1.34.4 on amd64 twice; " + remade},
		"no size":         {func(l *Lock) { l.Assets[0].Size = 0 }, of + "size is 0 bytes; " + remade},
		"a short sum":     {func(l *Lock) { l.Assets[0].SHA256 = "abc" }, of + `sha256 is "abc", not 64 hexadecimal digits; ` + remade},
		"no https":        {func(l *Lock) { l.Assets[0].URL = "http://dl.k8s.io/x" }, of + "url must be the publisher's address, with https and without a user; " + remade},
		"an origin":       {func(l *Lock) { l.Assets[0].Origin = "x" }, of + `source "x" is not known; known are upstream, eks-bucket; ` + remade},
		"no version":      {func(l *Lock) { l.Assets[0].Version = "" }, of + "id, kubernetes, arch and version must not be empty; " + remade},
		"a digest":        {func(l *Lock) { l.Images = []LockedImage{{"pause:1", "sha256:1"}} }, `the image "pause:1": digest is "sha256:1", not sha256: and 64 hexadecimal digits; ` + remade},
		"one image twice": {func(l *Lock) { i := LockedImage{"p:1", "sha256:" + sumOf(nil)}; l.Images = []LockedImage{i, i} }, "the file has the image p:1 twice; " + remade},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &Lock{Assets: []Locked{lockedKubelet()}}
			test.change(l)
			_, err := ParseLock([]byte(encoded(t, l)))
			require.EqualError(t, err, test.err)
		})
	}
}

func kubelet() Asset { return Table()[0] }

func TestTheLockPinsTheDownload(t *testing.T) {
	cni := Table()[2]
	l := &Lock{Assets: []Locked{lockedKubelet(), {
		ID: "cni-plugins", Kubernetes: "1.34.4", Arch: "amd64", Version: "1.8.0", Origin: Upstream, Size: 7, SHA256: sumOf(nil),
		URL: "https://github.com/containernetworking/plugins/releases/download/v1.8.0/cni-plugins-linux-amd64-v1.8.0.tgz",
	}}}
	c := Choice{Kubernetes: "1.34.4", Arch: "amd64", Commands: "/usr/bin", Lock: parsed(t, l), Source: "http://mirror.example/a"}
	d, err := kubelet().For(c)
	require.NoError(t, err)
	assert.Equal(t, sumOf(noise(300_000)), d.SHA256)
	assert.EqualValues(t, 300_000, d.Size)
	assert.Equal(t, "http://mirror.example/a/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet", d.URL)
	upper := c
	upper.SHA256 = strings.ToUpper(d.SHA256)
	_, err = kubelet().For(upper)
	require.NoError(t, err, "capital letters must not matter")
	d, err = cni.For(c)
	require.NoError(t, err)
	assert.Equal(t, "1.8.0", d.Version, "the locked version must win over the table's")
}

func TestFieldsThatContradictTheLockAreRefused(t *testing.T) {
	moved := lockedKubelet()
	moved.URL = "https://elsewhere.example/kubelet"
	dated := lockedKubelet()
	dated.Origin, dated.BuildDate = EKSBucket, "2025-11-13"
	dated.URL = "https://amazon-eks.s3.us-west-2.amazonaws.com/1.34.4/2025-11-13/bin/linux/amd64/kubelet"
	sum, other := sumOf(noise(300_000)), strings.Repeat("0", 64)
	tests := map[string]struct {
		locked Locked
		choice Choice
		err    string
	}{
		"another Kubernetes": {lockedKubelet(), Choice{Kubernetes: "1.33.1", Arch: "amd64"},
			`the lock file has no kubelet for Kubernetes 1.33.1 on amd64; add it with "eksnode lock --kubernetes-version 1.33.1 --arch amd64"`},
		"another architecture": {lockedKubelet(), Choice{Kubernetes: "1.34.4", Arch: "arm64"},
			`the lock file has no kubelet for Kubernetes 1.34.4 on arm64; add it with "eksnode lock --kubernetes-version 1.34.4 --arch arm64"`},
		"another version": {lockedKubelet(), Choice{Version: "1.34.5"}, `versions["kubelet"] is "1.34.5", but the lock file has 1.34.4; correct the field, or update the lock file`},
		"another sum":     {lockedKubelet(), Choice{SHA256: other}, `checksums["kubelet"] is ` + other + `, but the lock file has ` + sum + `; correct the field, or update the lock file`},
		"another source":  {lockedKubelet(), Choice{Origin: EKSBucket}, `source "eks-bucket" takes kubelet from eks-bucket, but the lock file takes it from upstream; correct the field, or update the lock file`},
		"another date":    {dated, Choice{Date: "2025-12-01"}, `eks_build_date is "2025-12-01", but the lock file has kubelet of 2025-11-13; correct the field, or update the lock file`},
		"another address": {moved, Choice{}, "the lock file has kubelet 1.34.4 from https://elsewhere.example/kubelet, but this download comes from https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet; update the lock file if that is right"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.choice.Lock = parsed(t, &Lock{Assets: []Locked{test.locked}})
			if test.choice.Kubernetes == "" {
				test.choice.Kubernetes, test.choice.Arch = "1.34.4", "amd64"
			}
			_, err := kubelet().For(test.choice)
			require.EqualError(t, err, test.err)
		})
	}
}

func TestAChangedReleaseIsAnErrorWithBothSums(t *testing.T) {
	l := &Lock{}
	require.NoError(t, l.Put(lockedKubelet()))
	require.NoError(t, l.Put(lockedKubelet()), "the same entry must be accepted twice")
	require.Len(t, l.Assets, 1)
	changed := lockedKubelet()
	changed.SHA256 = strings.Repeat("0", 64)
	require.EqualError(t, l.Put(changed), "kubelet 1.34.4 at https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet has the SHA-256 "+changed.SHA256+
		", but the lock file has "+lockedKubelet().SHA256+": the released file has changed, which must not happen; find out why before you accept the new one")
	l.Drop("kubelet", "1.34.4", "amd64")
	require.NoError(t, l.Put(changed))
	assert.Equal(t, []Locked{changed}, l.Assets)
}

// Only the locked file is installed, even if the mirror's checksum file names
// another sum.
func TestInstallAcceptsOnlyTheLockedFile(t *testing.T) {
	tests := map[string]struct {
		now  []byte
		size int64
		err  string
	}{
		"as locked": {noise(300_000), 300_000, ""},
		"changed upstream": {noise(300_001), 300_000, "verifying kubelet 1.34.4: the 300001 bytes from {} have the SHA-256 " + sumOf(noise(300_001)) +
			", but the lock file says " + sumOf(noise(300_000)) + " with 300000 bytes; nothing was installed; find out why the file has changed before you update the lock file or check the mirror {m}"},
		"a lock of another size": {noise(300_000), 299_999, "verifying kubelet 1.34.4: the 300000 bytes from {} have the SHA-256 " + sumOf(noise(300_000)) +
			", but the lock file says " + sumOf(noise(300_000)) + " with 299999 bytes; nothing was installed; find out why the file has changed before you update the lock file or check the mirror {m}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, test.now)
			locked := lockedKubelet()
			locked.Size = test.size
			d, err := kubelet().For(Choice{
				Kubernetes: "1.34.4", Arch: "amd64", Commands: "/usr/bin", Source: m.URL, Lock: parsed(t, &Lock{Assets: []Locked{locked}}),
			})
			require.NoError(t, err)
			h := newMachine(t, map[string]string{"usr/bin/kubelet": "the old one"})
			before := h.tree(t)
			_, err = Install(t.Context(), h.Host, hasty(), d, quietly)
			assert.Equal(t, []string{firstPiece}, m.requests(), "no checksum file may be fetched")
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, strings.NewReplacer("{}", m.URL+where, "{m}", m.URL).Replace(test.err))
			assert.Equal(t, before, h.tree(t), "no file may change")
		})
	}
}

// FuzzParseLock reads any lock file. A valid one is the same when it is written and
// read again.
func FuzzParseLock(f *testing.F) {
	l := &Lock{Assets: []Locked{lockedKubelet()}, Images: []LockedImage{{Name: "registry.k8s.io/pause:3.10", Digest: "sha256:" + strings.Repeat("a", 64)}}}
	good, err := l.Encode()
	require.NoError(f, err)
	for _, text := range []string{string(good), string(good) + "{}", "{}", "null", strings.Repeat("[", 20000), strings.Replace(string(good), "300000", "-1", 1)} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if sign { // otherwise no mutation would pass the sum
			var l Lock
			if json.Unmarshal(data, &l) != nil {
				return
			}
			l.SHA256, _ = l.sum() // a text can always be encoded
			data, _ = json.Marshal(l)
		}
		l, err := ParseLock(data)
		if err != nil {
			return
		}
		for _, a := range l.Assets {
			require.Positive(t, a.Size)
			require.True(t, IsSum(a.SHA256), a.SHA256)
		}
		require.Equal(t, encoded(t, l), encoded(t, parsed(t, l)))
	})
}
