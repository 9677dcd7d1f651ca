package nodeconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	return []byte(testkit.Content(t, "testdata/"+name))
}

func parse(t testing.TB, text []byte) *NodeConfig {
	t.Helper()
	c, _, err := Parse(text)
	require.NoError(t, err)
	return c
}

const head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"

func TestEveryFieldIsRead(t *testing.T) {
	c := parse(t, read(t, "every-field.yaml"))
	require.NoError(t, c.Validate())
	no := false
	assert.Equal(t, Spec{
		Cluster: Cluster{
			Name: "every-field", APIServerEndpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com",
			CertificateAuthority: Base64("certificateAuthority"), CIDR: "fd00:1234:5678::/108", EnableOutpost: &no, ID: "7b1a3c2d",
		},
		Containerd: Containerd{
			Config: "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndiscard_unpacked_layers = false\n",
			BaseRuntimeSpec: Document{"process": map[string]any{"rlimits": []any{
				map[string]any{"type": "RLIMIT_NOFILE", "soft": int64(1024), "hard": int64(2048)},
			}}},
		},
		Kubelet: Kubelet{
			Config:            Document{"maxPods": int64(110), "failSwapOn": false, "nodeStatusMaxImages": int64(-1), "imageGCHighThresholdPercent": int64(80)},
			Flags:             Flags{`--node-labels="a=b"`, "--v=4"},
			MaxPodsExpression: "((default_enis - 1) * (ips_per_eni - 1)) + 2",
		},
		Instance: Instance{
			LocalStorage: LocalStorage{Strategy: RAID10, MountPath: "/mnt/disks", DisabledMounts: []string{"Containerd", "PodLogs"}},
			Environment:  map[string]map[string]string{"default": {"HTTPS_PROXY": "http://proxy:3128", "ONE": "1"}, "kubelet": {"GODEBUG": "http2debug=1"}},
			Network:      Network{Nameservers: []string{"10.0.0.2", "[fd00::2]:53", "10.0.0.3#dns.example.com"}, Domains: []string{"example.com", "~."}},
		},
		FeatureGates: map[string]bool{"InstanceIdNodeName": true, "FastImagePull": false},
	}, c.Spec)
}

func TestFormsOfUserData(t *testing.T) {
	plain := read(t, "injected.mime")
	want := parse(t, plain)
	assert.Equal(t, "my-cluster", want.Spec.Cluster.Name)
	assert.Equal(t, Base64("certificateAuthority"), want.Spec.Cluster.CertificateAuthority, "surplus padding")
	assert.Equal(t, int64(17), want.Spec.Kubelet.Config["maxPods"])
	require.NoError(t, want.Validate())

	packed := testkit.Gzip(plain)
	for name, text := range map[string][]byte{
		"gzip":                           packed,
		"base64":                         []byte(base64.StdEncoding.EncodeToString(plain)),
		"base64 of gzip":                 []byte(base64.StdEncoding.EncodeToString(packed)),
		"blank lines above":              append([]byte("\n\n"), plain...),
		"boundary=//":                    bytes.Replace(plain, []byte(`boundary="//"`), []byte("boundary=//"), 1),
		"another header":                 append([]byte("Subject: user data,\n of a node\n"), plain...),
		"CRLF":                           bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n")),
		"block scalars":                  regexp.MustCompile(`(?m)^( +)(name|apiServerEndpoint|certificateAuthority|cidr): (.*)$`).ReplaceAll(plain, []byte("$1$2: |\n$1  $3")),
		"a script without an empty line": bytes.Replace(plain, []byte("\n--//--"), []byte("\n--//\nContent-Type: text/x-shellscript\n#!/bin/sh\n--//--"), 1),
	} {
		require.NotEqual(t, plain, text, name)
		t.Run(name, func(t *testing.T) { assert.Equal(t, want.Spec, parse(t, text).Spec) })
	}
}

func TestPartsMergeInOrder(t *testing.T) {
	later := base64.StdEncoding.EncodeToString(read(t, "later.yaml"))
	c := parse(t, bytes.Replace(read(t, "merged.mime"), []byte("{later}"), []byte(later), 1))
	no := false
	assert.Equal(t, Cluster{Name: "b", APIServerEndpoint: "https://a", EnableOutpost: &no}, c.Spec.Cluster)
	assert.Equal(t, Document{
		"maxPods": int64(20), "list": []any{int64(3)},
		"evictionHard": map[string]any{"memory.available": "2Gi", "nodefs.available": "5%"},
	}, c.Spec.Kubelet.Config)
	assert.Equal(t, Flags{"--a", "--b", "--a"}, c.Spec.Kubelet.Flags)
	table, err := c.Spec.Containerd.Config.Table()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": map[string]any{"x": int64(2), "y": int64(1)}, "b": map[string]any{"z": int64(3)}}, table)
	assert.Equal(t, map[string]map[string]string{"default": {"A": "1", "B": "2"}, "kubelet": {"C": "3"}}, c.Spec.Instance.Environment)
	assert.Equal(t, LocalStorage{Strategy: NoDisks}, c.Spec.Instance.LocalStorage, "no disks instead of RAID0")
	assert.False(t, c.Spec.Feature(FastImagePull))
}

func TestPartAfterTheEndIsAWarning(t *testing.T) {
	c, warnings, err := Parse(read(t, "example.mime"))
	require.NoError(t, err)
	assert.Empty(t, c.Spec.Kubelet.Config)
	assert.Equal(t, []string{"line 18: this part follows --BOUNDARY--, which in line 17 ended the last; no program reads the part"}, warnings)
}

func TestUserDataWithoutNodeConfig(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":               "",
		"blank":                 "  \n",
		"script":                "#!/bin/bash\n/etc/eks/bootstrap.sh my-cluster\n",
		"cloud-config":          "#cloud-config\nruncmd: []\n",
		"Bottlerocket":          "[settings.kubernetes]\ncluster-name = 'a'\n",
		"old form":              "settings.kubernetes.cluster-name = 'a'\n",
		"Windows":               "<powershell>\n</powershell>",
		"MIME without":          "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--X--\n",
		"MIME, no empty line":   "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n--X\nContent-Type: text/x-shellscript\n#!/bin/sh\n/etc/eks/bootstrap.sh a\n--X--\n",
		"MIME, a spoilt ending": "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh a\n--X--\\\n",
		"MIME, no parts":        "MIME-Version: 1.0\nContent-Type: text/plain\n\nhello\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse([]byte(text))
			assert.ErrorIs(t, err, ErrNone)
		})
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	var samples []struct{ Name, Text, Error string }
	require.NoError(t, yaml.Unmarshal(read(t, "errors.yaml"), &samples))
	for _, s := range samples {
		t.Run(s.Name, func(t *testing.T) {
			c, _, err := Parse([]byte(s.Text))
			if err == nil {
				err = c.Validate()
			}
			assert.EqualError(t, err, s.Error)
		})
	}
	_, _, err := Parse([]byte(cutGzip()))
	require.EqualError(t, err, "decompressing: the text is truncated after 40 bytes")
	_, _, err = Parse([]byte("\x1f\x8b\x08nonsense"))
	require.EqualError(t, err, "decompressing: unexpected EOF")
}

func twoParts(first, second string) string {
	const part = "--X\nContent-Type: application/node.eks.aws\n\n"
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n" + part + first + part + second + "--X--\n"
}

// cutGzip returns truncated user data.
func cutGzip() string {
	return zipped(head + "spec: {kubelet: {flags: [--v=1, --a=2, --b=3]}}\n")[:40]
}

// Two NodeConfigs of different clusters are allowed: the later value is used.
func TestContradictionsAreReported(t *testing.T) {
	text := func(name, more string) string {
		return head + "spec: {cluster: {name: " + name + ", apiServerEndpoint: https://" + name + ", certificateAuthority: Y2E=" + more + "}}\n"
	}
	c, warnings, err := Parse([]byte(twoParts(text("a", ""), text("b", ", cidr: 10.0.0.0/16"))))
	require.NoError(t, err)
	assert.Equal(t, "b", c.Spec.Cluster.Name)
	want := []string{
		`two NodeConfigs contradict each other: spec.cluster.name is "a" and then "b"; the later value is used`,
		`two NodeConfigs contradict each other: spec.cluster.apiServerEndpoint is "https://a" and then "https://b"; the later value is used`,
	}
	assert.Equal(t, want, warnings)

	files := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(files, "/d/1.yaml", []byte(text("a", "")), 0o644))
	require.NoError(t, afero.WriteFile(files, "/d/2.yaml", []byte(text("a", "")), 0o644))
	require.NoError(t, afero.WriteFile(files, "/d/3.yaml", []byte(head+"spec: {cluster: {certificateAuthority: YWE=}}\n"), 0o644))
	_, warnings, err = Reader{Files: files}.Load(t.Context(), []string{"file:///d"})
	require.NoError(t, err)
	assert.Equal(t, []string{"/d/3.yaml: two NodeConfigs contradict each other: spec.cluster.certificateAuthority differs; the later value is used"}, warnings)
}

func TestOpenQuotesAreErrors(t *testing.T) {
	for arguments, open := range map[string]string{
		`--v=2`: "", `--node-labels='a=b'`: "", `--a="it's"`: "", `--a='b`: "'", `--a="b`: `"`, `--a="b\"`: "", `--a='b"`: "'",
	} {
		_, got := split(arguments)
		assert.Equal(t, open, got, arguments)
	}
	c := parse(t, []byte(head+"spec:\n  kubelet: {flags: [--v=2, \"--node-labels='a=b\"]}\n"))
	assert.ErrorContains(t, c.Validate(), "spec.kubelet.flags[1]: ' is not closed in --node-labels='a=b")
}

func TestAliasesAndMergeKeysAreFollowed(t *testing.T) {
	c := parse(t, []byte(head+"spec:\n  kubelet:\n    config:\n      base: &base {a: 1, b: 2}\n      both: {<<: *base, b: 3}\n      same: *base\n"))
	one := map[string]any{"a": int64(1), "b": int64(2)}
	assert.Equal(t, Document{"base": one, "same": one, "both": map[string]any{"a": int64(1), "b": int64(3)}}, c.Spec.Kubelet.Config)
}

func TestSourcesAreReadInOrder(t *testing.T) {
	files := afero.NewMemMapFs()
	write := func(name, spec string) {
		require.NoError(t, afero.WriteFile(files, name, []byte(head+"spec: "+spec+"\n"), 0o644))
	}
	write("/etc/eks/nodeadm.d/20.yaml", "{cluster: {name: b}, kubelet: {flags: [--20]}}")
	write("/etc/eks/nodeadm.d/10.YML", "{cluster: {name: a}, kubelet: {flags: [--10]}}")
	write("/etc/eks/nodeadm.d/30.json", "{\"kubelet\": {\"flags\": [\"--30\"]}}")
	write("/etc/eks/nodeadm.d/README", "{nonsense: 1}")
	write("/home/config.yaml", "{kubelet: {flags: [--home]}}")
	write("/home/parts/1.yaml", "{kubelet: {flags: [--part]}}")
	require.NoError(t, files.MkdirAll("/empty", 0o755))
	r := Reader{Files: files, Folder: "/home", UserData: func(context.Context) ([]byte, error) {
		return []byte(head + "spec: {kubelet: {flags: [--user-data]}}"), nil
	}}
	c, _, err := r.Load(t.Context(), []string{UserDataSource, "file:///etc/eks/nodeadm.d/", "file:///empty", "file:///missing/", "file://missing/", "file://config.yaml", "file://./parts/"})
	require.NoError(t, err)
	assert.Equal(t, "b", c.Spec.Cluster.Name)
	assert.Equal(t, Flags{"--user-data", "--10", "--20", "--30", "--home", "--part"}, c.Spec.Kubelet.Flags)

	_, _, err = r.Load(t.Context(), []string{"file:///empty"})
	assert.ErrorIs(t, err, ErrNone)
	_, _, err = r.Load(t.Context(), []string{"file:///missing"})
	assert.EqualError(t, err, "reading the source: open /missing: file does not exist")
	require.NoError(t, afero.WriteFile(r.Files, "/endless", make([]byte, maxText+1), 0o600))
	_, _, err = r.Load(t.Context(), []string{"file:///endless"})
	assert.EqualError(t, err, "reading the source: read /endless: the text has more than 1 MiB")
	_, _, err = Reader{Files: afero.NewOsFs()}.Load(t.Context(), []string{"file:///dev/null"})
	assert.EqualError(t, err, "reading the source: read /dev/null: not a regular file; write the NodeConfig into a file")
	_, _, err = r.Load(t.Context(), []string{"/etc/eks"})
	assert.EqualError(t, err, `reading the source "/etc/eks": it must be imds://user-data or file:///PATH`)
	r.Folder = ""
	_, _, err = r.Load(t.Context(), []string{"file://config.yaml"})
	assert.EqualError(t, err, "reading the source file://config.yaml: the path must be absolute, as in file:///etc/eks/config.yaml")
	r.UserData = func(context.Context) ([]byte, error) { return nil, errors.New("no answer") }
	_, _, err = r.Load(t.Context(), []string{UserDataSource})
	assert.EqualError(t, err, "reading imds://user-data: no answer")
}

// A NodeConfig that is printed and read again has the same values.
func FuzzDecode(f *testing.F) {
	f.Add(read(f, "every-field.yaml"))
	f.Add([]byte(head + "---\n" + head + "spec: {kubelet: {config: {a: [1, 2.5, 0x1f, true, null, ~, 2001-01-01, '<<']}}}\n"))
	f.Add([]byte(head + "spec:\n  kubelet:\n    config:\n      base: &b {a: 1}\n      both: {<<: [*b, {c: d}]}\n"))
	f.Add([]byte(head + "spec: {kubelet: {config: {}}}\n"))
	for _, text := range smallBombs() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Decode(text)
		if err != nil {
			return
		}
		printed, err := json.Marshal(c)
		require.NoError(t, err)
		again, err := Decode(printed)
		require.NoError(t, err, "%s", printed)
		reprinted, err := json.Marshal(again)
		require.NoError(t, err)
		assert.Equal(t, string(printed), string(reprinted))
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("Subject: a\r\n b\r\nContent-Type: multipart/mixed; boundary=//\r\n\r\n--//\r\nContent-Type: application/node.eks.aws\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" + head + "\r\n--//--\r\n"))
	f.Add([]byte(cutGzip()))
	for _, name := range []string{"example.mime", "injected.mime", "every-field.yaml"} {
		f.Add(read(f, name))
	}
	f.Add([]byte(head + "spec:\n  kubelet:\n    config: &a\n      b: *a\n"))
	for _, text := range smallBombs() {
		f.Add([]byte(text))
		f.Add([]byte(zipped(text)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse(text)
		if err != nil {
			return
		}
		again, _, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, c.Spec, again.Spec)
		_ = c.Validate() // must not panic
	})
}
