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
	c := parse(t, []byte(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="X"

--X
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo apiVersion: nothing of ours
--X
Content-Type: application/node.eks.aws

`+head+`spec:
  cluster: {name: a, apiServerEndpoint: https://a, enableOutpost: true}
  kubelet:
    config: {maxPods: 10, evictionHard: {memory.available: 1Gi, nodefs.available: 5%}, list: [1, 2]}
    flags: [--a]
  containerd:
    config: "[a]\nx = 1\ny = 1\n"
  instance: {environment: {default: {A: "1", B: "1"}}}
  featureGates: {FastImagePull: true}
--X
Content-Type: multipart/mixed; boundary="Y"

--Y
Content-Type: application/node.eks.aws

`+base64.StdEncoding.EncodeToString([]byte(head+`spec:
  cluster: {name: b, enableOutpost: false}
  kubelet:
    config: {maxPods: 20, evictionHard: {memory.available: 2Gi}, list: [3]}
    flags: [--b, --a]
  containerd:
    config: "[a]\nx = 2\n[b]\nz = 3\n"
  instance: {environment: {default: {B: "2"}, kubelet: {C: "3"}}}
  featureGates: {FastImagePull: false}
`))+`
--Y--
--X--
`))
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
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":        {head + "spec:\n  cluster:\n    clusterName: a\n    nam: b\n  kubelets: {}\n", "line 5: spec.cluster.clusterName: unknown field; did you mean name?\nline 6: spec.cluster.nam: unknown field; did you mean name?\nline 7: spec.kubelets: unknown field; did you mean kubelet?"},
		"not supported":        {head + "spec:\n  instance:\n    storage: {volumes: [{device: /dev/sdb}]}\n", "line 5: spec.instance.storage: is not supported; format and mount EBS volumes in a user data script, which runs before containerd and the kubelet start"},
		"no near name":         {head + "spec:\n  xyzzyxyzzy: 1\n", "line 4: spec.xyzzyxyzzy: unknown field; known are cluster, containerd, featureGates, instance, kubelet"},
		"wrong type":           {head + "spec:\n  kubelet:\n    flags: --v=2\n    config: [1]\n", "line 5: spec.kubelet.flags: must be a list, not text\nline 6: spec.kubelet.config: must be an object, not a list"},
		"list in text":         {head + "spec:\n  cluster:\n    name: [a]\n", "line 5: spec.cluster.name: must be text, not a list"},
		"no boolean":           {head + "spec:\n  cluster:\n    enableOutpost: \"yes\"\n", "line 5: spec.cluster.enableOutpost: must be true or false, not text"},
		"set twice":            {head + "spec:\n  cluster:\n    name: a\n    name: b\n", "line 6: spec.cluster.name: the field is set twice; first in line 5"},
		"not base64":           {head + "spec:\n  cluster:\n    certificateAuthority: '<ca>'\n", "line 5: spec.cluster.certificateAuthority: the value is not base64: illegal base64 data at input byte 0"},
		"another version":      {"apiVersion: node.eks.aws/v1\nkind: NodeConfig\n", "line 1: apiVersion node.eks.aws/v1 is not supported; the supported version is node.eks.aws/v1alpha1"},
		"misspelt version":     {"apiVersion: node.eks.aws/v1alpha\nkind: NodeConfig\n", "line 1: apiVersion node.eks.aws/v1alpha is not supported; the supported version is node.eks.aws/v1alpha1"},
		"another kind":         {"apiVersion: v1\nkind: ConfigMap\n", "line 1: apiVersion v1, kind ConfigMap is not a NodeConfig (node.eks.aws/v1alpha1)"},
		"no kind":              {"spec: {}\n", "line 1: a NodeConfig begins with apiVersion: node.eks.aws/v1alpha1 and kind: NodeConfig"},
		"text":                 {"hello", "line 1: a NodeConfig is an object with apiVersion, kind and spec, not text"},
		"no YAML":              {"a: b: c", "reading the YAML: mapping values are not allowed in this context"},
		"only a comment":       {"# nothing\n", "the text contains no document: a NodeConfig is YAML with apiVersion node.eks.aws/v1alpha1 and kind NodeConfig"},
		"circle":               {head + "spec:\n  kubelet:\n    config: &a\n      b: *a\n", "line 6: spec.kubelet.config.b.b: the alias *a contains itself"},
		"no boundary":          {"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--X\n", "line 1: Content-Type: the boundary is missing"},
		"cut off":              {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/plain\n\nhello\n", "line 8: --X-- is missing, which ends the last part"},
		"broken gzip":          {"\x1f\x8b\x08nonsense", "decompressing: unexpected EOF"},
		"gzip cut short":       {cutGzip(), "decompressing: the text is truncated after 40 bytes"},
		"a spoilt ending":      {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: application/node.eks.aws\n\n" + head + "spec: {}\n--X--\\\n", "line 10: --X-- ends the last part only on a line of its own"},
		"no empty line":        {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: application/node.eks.aws\n" + head + "spec: {}\n--X--\n", "line 6: an empty line must stand between the part's Content-Type and its NodeConfig"},
		"a hybrid node":        {head + "spec:\n  cluster: {region: eu-west-1}\n  hybrid: {}\n", "line 4: spec.cluster.region: is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances know their region\nline 5: spec.hybrid: is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances need no such field"},
		"wrong part":           {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: application/node.eks.aws\n\n" + head + "spec: {clutser: {}}\n--X--\n", "part 1 of type application/node.eks.aws: line 9: spec.clutser: unknown field; did you mean cluster?"},
		"no YAML in a part":    {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: application/node.eks.aws\n\n" + head + "spec:\n  cluster:\n   name: a\n  kubelet: b: c\n--X--\n", "part 1 of type application/node.eks.aws: reading the YAML: line 12: mapping values are not allowed in this context"},
		"a later part":         {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--X\nContent-Type: multipart/mixed; boundary=Y\n\n--Y\nContent-Type: application/node.eks.aws\n\n# nothing\n---\n" + head + "spec: {clutser: {}, kubelet: {flag: a}}\n--Y--\n--X--\n", "part 1 of type application/node.eks.aws: line 18: spec.clutser: unknown field; did you mean cluster?\nline 18: spec.kubelet.flag: unknown field; did you mean flags?"},
		"an encoded part":      {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: application/node.eks.aws\n\n" + base64.StdEncoding.EncodeToString([]byte(head+"spec: {clutser: {}}\n")) + "\n--X--\n", "part 1 of type application/node.eks.aws: line 7: unpacked: line 3: spec.clutser: unknown field; did you mean cluster?"},
		"no base64 in a part":  {"MIME-Version: 1.0\nContent-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64\n\n<" + head, "line 5: the part is not base64: illegal base64 data at input byte 0"},
		"TOML while merging":   {twoParts(head+"spec: {containerd: {config: \"a = 1\"}}\n", head+"spec: {containerd: {config: \"b\\n= 1\"}}\n"), "part 2 of type application/node.eks.aws: spec.containerd.config: line 1 of the TOML: toml: expected '=' after key"},
		"a number for a name":  {head + "spec: {cluster: {name: 1234}}\n", "line 3: spec.cluster.name: must be text, not a number; put 1234 in quotes"},
		"a float":              {head + "spec: {cluster: {cidr: 1.5}}\n", "line 3: spec.cluster.cidr: must be text, not a number; put 1.5 in quotes"},
		"booleans for texts":   {head + "spec: {kubelet: {flags: [true, yes]}, instance: {environment: {default: {A: on, B: y}}}}\n", "line 3: spec.kubelet.flags[0]: must be text, not a boolean; put true in quotes\nline 3: spec.kubelet.flags[1]: must be text, not a boolean; put yes in quotes\nline 3: spec.instance.environment.default.A: must be text, not a boolean; put on in quotes\nline 3: spec.instance.environment.default.B: must be text, not a boolean; put y in quotes"},
		"a number for base64":  {head + "spec: {cluster: {certificateAuthority: 17}}\n", "line 3: spec.cluster.certificateAuthority: must be text, not a number; put 17 in quotes"},
		"a member set twice":   {head + "spec: {kubelet: {config: {a: {b: 1, b: 2}}}}\n", "line 3: spec.kubelet.config.a.b: the field is set twice; first in line 3"},
		"merge key of nothing": {head + "spec: {kubelet: {config: {<<: 3}}}\n", "line 3: spec.kubelet.config: << takes an object, not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse([]byte(c.text))
			assert.EqualError(t, err, c.want)
		})
	}
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
		assert.Equal(t, open, OpenQuote(arguments), arguments)
	}
	c := parse(t, []byte(head+"spec:\n  kubelet: {flags: [--v=2, \"--node-labels='a=b\"]}\n"))
	assert.ErrorContains(t, c.Validate(), "spec.kubelet.flags[1]: ' is not closed in --node-labels='a=b")
}

func TestAliasesAndMergeKeysAreFollowed(t *testing.T) {
	c := parse(t, []byte(head+"spec:\n  kubelet:\n    config:\n      base: &base {a: 1, b: 2}\n      both: {<<: *base, b: 3}\n      same: *base\n"))
	one := map[string]any{"a": int64(1), "b": int64(2)}
	assert.Equal(t, Document{"base": one, "same": one, "both": map[string]any{"a": int64(1), "b": int64(3)}}, c.Spec.Kubelet.Config)
}

func TestValidationReportsAllErrors(t *testing.T) {
	c := parse(t, []byte(head+`spec:
  cluster: {name: "a b", apiServerEndpoint: "ftp://x", cidr: 10.0.0.0, enableOutpost: true}
  containerd: {config: "[a"}
  kubelet: {flags: ["--a\n--b"], maxPodsExpression: max_pod}
  instance:
    localStorage: {strategy: RAID1, mountPath: /, disabledMounts: [Pods]}
    environment: {"a b": {"1": x}, kubelet: {A: "x\ny"}}
    network: {nameservers: [dns.example.com], domains: ["a b"]}
  featureGates: {FastImagePul: true}
`))
	assert.EqualError(t, c.Validate(), `spec.cluster.certificateAuthority: is missing; `+"`aws eks describe-cluster`"+` shows the value
spec.cluster.name: "a b" is not a cluster name: up to 100 letters, digits, - and _
spec.cluster.apiServerEndpoint: "ftp://x" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com
spec.cluster.cidr: "10.0.0.0" is no network such as 10.100.0.0/16 or fd00:1234::/108
spec.cluster.id: is missing; a local cluster on an Outpost is identified by this ID
spec.containerd.config: line 1 of the TOML: toml: expected ']' to close table name
spec.kubelet.flags[0]: a flag must be on one line
spec.kubelet.maxPodsExpression: compiling the expression "max_pod": line 1, column 1: undeclared reference to 'max_pod'; the variables are default_enis, ips_per_eni, max_pods, vcpus, physical_memory_mib
spec.instance.localStorage.strategy: unknown value "RAID1"; did you mean RAID0?
spec.instance.localStorage.mountPath: "/" must be an absolute path below / without spaces, quotes, % and \
spec.instance.localStorage.disabledMounts[0]: unknown value "Pods"; known are Containerd, PodLogs, SOCI
spec.instance.environment.a b: "a b" is not a service name
spec.instance.environment.a b.1: "1" is not a variable name
spec.instance.environment.kubelet.A: the value must be on one line
spec.instance.network.nameservers[0]: "dns.example.com" is no address
spec.instance.network.domains[0]: "a b" is not a domain name
spec.featureGates.FastImagePul: unknown feature gate; did you mean FastImagePull?`)
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
	require.NoError(t, files.MkdirAll("/empty", 0o755))
	r := Reader{Files: files, Folder: "/home", UserData: func(context.Context) ([]byte, error) {
		return []byte(head + "spec: {kubelet: {flags: [--user-data]}}"), nil
	}}
	c, _, err := r.Load(t.Context(), []string{UserDataSource, "file:///etc/eks/nodeadm.d/", "file:///empty", "file:///missing/", "file://config.yaml"})
	require.NoError(t, err)
	assert.Equal(t, "b", c.Spec.Cluster.Name)
	assert.Equal(t, Flags{"--user-data", "--10", "--20", "--30", "--home"}, c.Spec.Kubelet.Flags)

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
